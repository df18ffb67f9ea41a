"""A consumer group's copy of a stream: the same events, with a window, leases and dead letters of its own.

How far a group has come is one number, its position: everything of the stream up to there is settled. What
was settled out of order, ahead of the position, is written down beside it; so is what died. A position costs
one row for each group, however many events were settled; a row for each event and group would double the
writes of the broker for every group that it has.
"""

from itertools import groupby

from broker.contracts.inbound import InboundEvent
from broker.journal.lives import REDRIVE
from broker.streams.entry import Entry
from broker.streams.ledger import GroupLedger
from broker.streams.rules import StreamRules
from broker.streams.stream import Stream


class Group(Stream):
    """The copy of one stream for one group. `pending` counts what is in its window; the ledger has the rest."""

    __slots__ = ("_replaying", "_unsettled", "group_ledger", "name_of_group")

    def __init__(
        self, name: str, rules: StreamRules, name_of_group: str, ledger: GroupLedger, position: int, arrived_seq: int
    ) -> None:
        super().__init__(name, rules, ledger)
        self.name_of_group = name_of_group
        self.group_ledger = ledger
        self._unsettled: dict[int, None] = {}
        """The sequences in the window or in flight, in their order. Bounded as the ring is."""
        self._replaying: set[int] = set()
        """Those that have a row of their own, whatever the position: dead letters that were replayed, and events that
        were delivered in vain before a restart."""
        self.loaded_seq = position
        self.arrived_seq = arrived_seq
        self.behind = not rules.in_memory and position < arrived_seq
        ledger.watch(self)

    @property
    def position(self) -> int:
        """Up to here, everything of the ledger is settled. Looked at once a write, not once an event."""
        if self.rules.in_memory:  # what it has in its window is not of the ledger
            return self.loaded_seq
        return next(iter(self._unsettled), self.loaded_seq + 1) - 1

    def arrive(self, events: list[tuple[int, InboundEvent]]) -> int:
        """Take newly committed events, but for dead letters that the stream itself replays: it had them before."""
        came = 0
        for is_replay, some in groupby(events, key=_is_replay):
            if is_replay:
                self._pass_over(max(seq for seq, _event in some))
            else:
                came += super().arrive(list(some))
        return came

    def _count(self, came: int, received_at: int) -> None:
        self.counters.count_came(came)
        self.last_received_at = received_at

    def _take_in(self, entries: list[Entry]) -> int:
        taken = super()._take_in(entries)
        self._unsettled |= dict.fromkeys(entry.seq for entry in entries[:taken])
        self.pending += taken
        return taken

    def _pass_over(self, seq: int) -> None:
        self.arrived_seq = seq
        if not self.behind:
            self.loaded_seq = max(self.loaded_seq, seq)

    def load_replays(self, entries: list[Entry], *, may_be_more: bool) -> None:
        """Take events that are to be delivered again. What does not fit any more is asked for again."""
        self.replays = self.replays or may_be_more
        taken = super()._take_in(entries)
        self.replays = self.replays or taken < len(entries)
        self._replaying.update(entry.seq for entry in entries[:taken])
        self.pending += taken

    @property
    def loaded(self) -> list[int]:
        """Everything that is in the window or in flight."""
        return [*self._replaying, *self._unsettled]

    def settle(self, entries: list[Entry]) -> None:
        """Events have come to their end for this group."""
        super().settle(entries)
        for entry in entries:
            if entry.seq in self._replaying:
                self._replaying.discard(entry.seq)
            else:
                del self._unsettled[entry.seq]


def _is_replay(pair: tuple[int, InboundEvent]) -> bool:
    return pair[1].source_system.startswith(REDRIVE)

"""A consumer group's copy of a stream: the same events, with a window, leases and dead letters of its own.

How far a group has come is one number, its position: everything of the stream up to there is settled. What
was settled out of order, ahead of the position, is written down beside it; so is what died. A position costs
one row for each group, however many events were settled; a row for each event and group would double the
writes of the broker for every group that it has.
"""

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

    def _count(self, received_at: int) -> None:
        self.counters.count_came()
        self.last_received_at = received_at

    def _take_in(self, entry: Entry) -> bool:
        if not super()._take_in(entry):
            return False
        self._unsettled[entry.seq] = None
        self.pending += 1
        return True

    def pass_over(self, seq: int) -> None:
        """A dead letter of the stream itself was replayed: the group had its event when it came."""
        self.arrived_seq = seq
        if not self.behind:
            self.loaded_seq = max(self.loaded_seq, seq)

    def load_replays(self, entries: list[Entry], *, may_be_more: bool) -> None:
        """Take events that are to be delivered again. What does not fit any more is asked for again."""
        self.replays = self.replays or may_be_more
        for entry in entries:
            if not super()._take_in(entry):
                self.replays = True
                return
            self._replaying.add(entry.seq)
            self.pending += 1

    @property
    def loaded(self) -> list[int]:
        """Everything that is in the window or in flight."""
        return [*self._replaying, *self._unsettled]

    def settle(self, entry: Entry) -> None:
        """An event has come to its end for this group."""
        super().settle(entry)
        if entry.seq in self._replaying:
            self._replaying.discard(entry.seq)
        else:
            del self._unsettled[entry.seq]

"""One stream: events that wait, in order, and subscribers that take turns.

             arrive                    pick + lease                ack
    journal ───────► ring (waiting) ───────────────► in flight ───────────► processed
                       ▲      ▲                        │  │  │
                       │      └── restore (head) ──────┘  │  │   the subscriber went away
                       └───────── requeue (tail) ─────────┘  │   nack, or the lease ran out
                                                             └─► dead letter, after maxDeliveries

The ring is a window: a durable stream may be longer, and the rest stays in the ledger. While the window
lags (`behind`), what arrives is left in the ledger too, so that the order is kept, and the catch-up pages
it in. The stream does not know who is listening: a subscriber is anything with `deliver`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from _fast import Counters, Credits, Ring, any_partition, entries_numbered, entries_of, envelope_bytes
from broker.contracts.bus import CONTRACT
from broker.contracts.inbound import InboundEvent
from broker.contracts.origin import origin_of_event
from broker.limits import CREDIT_MAX, WINDOW_BYTES_MAX
from broker.streams.entry import Entry
from broker.streams.meter import Meter
from broker.streams.partitions import Partitions
from broker.streams.rules import StreamRules

if TYPE_CHECKING:
    from broker.streams.group import Group
    from broker.streams.ledger import Ledger
    from broker.streams.subscription import Subscription

WINDOW_MAX = 10_000
"""How many events of one durable stream are kept in memory; the rest waits in the ledger. See WINDOW_BYTES_MAX too."""


class Stream:
    """The state of one stream. Leases are the registry's."""

    __slots__ = (
        "arrived_seq", "behind", "bytes", "counters", "credits", "groups", "in_flight", "last_received_at", "ledger",
        "loaded_seq", "meter", "name", "paging", "partitions", "patterns", "pending", "replays", "ring", "rules",
    )  # fmt: skip

    def __init__(self, name: str, rules: StreamRules, ledger: "Ledger") -> None:
        self.name = name
        self.rules = rules
        self.ledger = ledger
        """Where its pages come from, and what is told what becomes of its events."""
        self.groups: dict[str, Group] | None = None
        """The consumer groups that have a copy of it; None while there is none."""
        self.ring: Ring[Entry] = Ring(rules.depth_max if rules.in_memory else min(WINDOW_MAX, rules.depth_max))
        self.credits: Credits[Subscription] = Credits(CREDIT_MAX)
        self.partitions: Partitions | None = None
        """Made when the first event with a partition key comes into the window."""
        self.patterns = 0
        """How many of those in its line are subscribed to a pattern."""
        self.meter: Meter | None = None
        """Made when the first event comes."""
        self.bytes = 0
        """Of the envelopes in the window, those in flight included."""
        self.in_flight = 0
        self.pending = 0
        """Events that are neither processed nor dead: waiting (in the ring or in the ledger), delayed or in flight."""
        self.behind = False
        """Whether the ledger has events that are not in the window yet."""
        self.replays = False
        """Whether the ledger has events that are to be delivered again, although the window has passed them."""
        self.paging = False
        """Whether a page is being read."""
        self.loaded_seq = 0
        """Everything of the ledger up to here has been through the window."""
        self.arrived_seq = 0
        """The newest event of this stream that was committed."""
        self.last_received_at = 0
        """When the newest event was received, in microseconds since 1970."""
        self.counters = Counters()
        """What happened here since the start of the broker."""

    def arrive(self, events: list[tuple[int, InboundEvent]]) -> int:
        """Take newly committed events into the window as far as it goes, and leave the rest to the catch-up.

        A page may have brought some already: the reader sees a commit before the loop hears of it. Nothing is made of
        those that are left. Return how many came.
        """
        count = len(events)
        last_seq, last = events[-1]
        self._count(count, last.received_at)
        self.arrived_seq = last_seq
        if self.behind:
            return count
        if events[0][0] <= self.loaded_seq:
            events = [pair for pair in events if pair[0] > self.loaded_seq]
        entries = entries_of(self, events[: self.room], CONTRACT, origin_of_event)
        taken = self._take_in(entries)
        if taken:
            self.loaded_seq = entries[taken - 1].seq
        self.behind = taken < len(events)
        return count

    def offer(self, events: Sequence[InboundEvent], seqs: list[int]) -> None:
        """Take events that are nowhere else; there must be room for them."""
        taken = self._take_in(entries_numbered(self, events, seqs, CONTRACT, origin_of_event))
        assert taken == len(events), "who offers looks at the room first"
        self._count(taken, events[-1].received_at)

    def _count(self, came: int, received_at: int) -> None:
        self.pending += came
        self.counters.count_came(came)
        self.last_received_at = received_at

    def load_page(self, entries: list[Entry], last_seq: int) -> None:
        """Take a page of the ledger into the window; the reader asked for no more than there was room for."""
        taken = self._take_in(entries)
        if taken == len(entries):
            self.loaded_seq = last_seq
        elif taken:
            self.loaded_seq = entries[taken - 1].seq
        self.behind = self.loaded_seq < self.arrived_seq

    def _take_in(self, entries: list[Entry]) -> int:
        """Take events into the window; how many, the first of them, it has places for, and bytes.

        A stream in memory has nowhere else to leave its events, and is bounded by their number alone.
        """
        size = envelope_bytes(entries)
        if self.bytes + size > WINDOW_BYTES_MAX and not self.rules.in_memory:
            entries = self._that_fit(entries)
            size = envelope_bytes(entries)
        taken = self.ring.push_many(entries)
        self.bytes += size if taken == len(entries) else envelope_bytes(entries[:taken])
        if self.partitions is None and any_partition(entries):
            self.partitions = Partitions()
        return taken

    def _that_fit(self, entries: list[Entry]) -> list[Entry]:
        """The first of these events, as many as the window has bytes for."""
        left = WINDOW_BYTES_MAX - self.bytes
        for place, entry in enumerate(entries):
            left -= len(entry.envelope)
            if left < 0:
                return entries[:place]
        return entries

    def copies(self) -> "Sequence[Stream]":
        """What an event of this stream is delivered from: the stream itself, and its copy for each group."""
        return (self,) if self.groups is None else (self, *self.groups.values())

    def take(self) -> Entry | None:
        """The next event that may go out; those whose partition key has one out already are set aside."""
        while (entry := self.ring.pop()) is not None:
            if entry.partition is None or self.partitions is None or self.partitions.admit(entry):
                return entry
        return None

    def settle(self, entries: list[Entry]) -> None:
        """Events have come to their end: give up their places, and let the next one of each key out."""
        self.ring.release(len(entries))
        self.bytes -= envelope_bytes(entries)
        self.pending -= len(entries)
        if self.partitions is None:
            return
        for entry in entries:
            if entry.partition is not None and (following := self.partitions.settle(entry)) is not None:
                self.ring.restore(following)

    @property
    def room(self) -> int:
        """How many events the window can take."""
        return self.ring.capacity - len(self.ring) - self.ring.held

    @property
    def is_half_free(self) -> bool:
        """Whether it is worth while to read a page: half of the window is free, in places and in bytes."""
        return self.room * 2 >= self.ring.capacity and self.bytes * 2 <= WINDOW_BYTES_MAX

    @property
    def deliverable(self) -> bool:
        """Whether there is an event that waits and a subscriber with credit."""
        return bool(len(self.ring)) and bool(self.credits.ready)

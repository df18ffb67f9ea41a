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

from _fast import Counters, Credits, Ring
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

    def arrive(self, entry: Entry) -> None:
        """Take a newly committed event into the window, or leave it to the catch-up.

        A page may have brought it already: the reader sees a commit before the loop hears of it.
        """
        self._count(entry.received_at)
        self.arrived_seq = entry.seq
        if not self.behind and entry.seq > self.loaded_seq:
            self._load(entry)

    def leave(self, seq: int, received_at: int) -> None:
        """Leave a newly committed event to the catch-up, because the window lags: nothing is made of it."""
        self._count(received_at)
        self.arrived_seq = seq

    def offer(self, entry: Entry) -> bool:
        """Take an event that is nowhere else; False, and nothing changed, when the stream is full."""
        if not self._take_in(entry):
            return False
        self._count(entry.received_at)
        return True

    def _count(self, received_at: int) -> None:
        self.pending += 1
        self.counters.count_came()
        self.last_received_at = received_at

    def load_page(self, entries: list[Entry], last_seq: int) -> None:
        """Take a page of the ledger into the window; the reader asked for no more than there was room for."""
        for entry in entries:
            if not self._take_in(entry):
                break
            self.loaded_seq = entry.seq
        else:
            self.loaded_seq = last_seq
        self.behind = self.loaded_seq < self.arrived_seq

    def _load(self, entry: Entry) -> None:
        if self._take_in(entry):
            self.loaded_seq = entry.seq
        else:
            self.behind = True

    def _take_in(self, entry: Entry) -> bool:
        """Take an event into the window; False when it has no place for it, or no bytes.

        A stream in memory has nowhere else to leave its events, and is bounded by their number alone.
        """
        size = len(entry.envelope)
        if self.bytes + size > WINDOW_BYTES_MAX and not self.rules.in_memory:
            return False
        if not self.ring.push(entry):
            return False
        self.bytes += size
        if entry.partition is not None and self.partitions is None:
            self.partitions = Partitions()
        return True

    def copies(self) -> "Sequence[Stream]":
        """What an event of this stream is delivered from: the stream itself, and its copy for each group."""
        return (self,) if self.groups is None else (self, *self.groups.values())

    def take(self) -> Entry | None:
        """The next event that may go out; those whose partition key has one out already are set aside."""
        while (entry := self.ring.pop()) is not None:
            if entry.partition is None or self.partitions is None or self.partitions.admit(entry):
                return entry
        return None

    def settle(self, entry: Entry) -> None:
        """An event has come to its end: give up its place, and let the next one of its key out."""
        self.ring.release()
        self.bytes -= len(entry.envelope)
        self.pending -= 1
        if entry.partition is not None:
            assert self.partitions is not None
            following = self.partitions.settle(entry)
            if following is not None:
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

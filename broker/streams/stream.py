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

from typing import Protocol

from _fast import Credits, Ring
from broker.limits import CREDIT_MAX
from broker.streams.entry import Entry


class Subscriber(Protocol):
    """Somebody who takes deliveries."""

    def deliver(self, entry: Entry) -> None:
        """Take one leased event. Must not block and must not raise."""


class Stream:
    """The state of one stream. Leases and the journal are the registry's."""

    __slots__ = (
        "arrived_seq", "behind", "credits", "in_flight", "loaded_seq", "name", "paging", "pending", "ring",
        "total_acked", "total_dead", "total_delivered", "total_in", "total_nacked", "total_redelivered",
    )  # fmt: skip

    def __init__(self, name: str, window: int) -> None:
        self.name = name
        self.ring: Ring[Entry] = Ring(window)
        self.credits: Credits[Subscription] = Credits(CREDIT_MAX)
        self.in_flight = 0
        self.pending = 0
        """Events that are neither processed nor dead: waiting (in the ring or in the ledger), delayed or in flight."""
        self.behind = False
        """Whether the ledger has events that are not in the window yet."""
        self.paging = False
        """Whether a page is being read."""
        self.loaded_seq = 0
        """Everything up to here has been through the window."""
        self.arrived_seq = 0
        """The newest event of this stream that was committed."""
        self.total_in = self.total_delivered = self.total_acked = 0
        self.total_nacked = self.total_redelivered = self.total_dead = 0

    def arrive(self, entry: Entry) -> None:
        """Take a newly committed event into the window, or leave it to the catch-up.

        A page may have brought it already: the reader sees a commit before the loop hears of it.
        """
        self.pending += 1
        self.total_in += 1
        self.arrived_seq = entry.seq
        if not self.behind and entry.seq > self.loaded_seq:
            self._load(entry)

    def load_page(self, entries: list[Entry], last_seq: int) -> None:
        """Take a page of the ledger into the window; the reader asked for no more than there was room for."""
        for entry in entries:
            if not self.ring.push(entry):
                break
            self.loaded_seq = entry.seq
        else:
            self.loaded_seq = last_seq
        self.behind = self.loaded_seq < self.arrived_seq

    def _load(self, entry: Entry) -> None:
        if self.ring.push(entry):
            self.loaded_seq = entry.seq
        else:
            self.behind = True

    @property
    def room(self) -> int:
        """How many events the window can take."""
        return self.ring.capacity - len(self.ring) - self.ring.held

    @property
    def deliverable(self) -> bool:
        """Whether there is an event that waits and a subscriber with credit."""
        return bool(len(self.ring)) and bool(self.credits.ready)


class Subscription:
    """A subscriber's place at a stream: its credit, and what it holds."""

    __slots__ = ("entries", "stream", "subscriber", "ticket")

    def __init__(self, stream: Stream, subscriber: Subscriber) -> None:
        self.stream = stream
        self.subscriber = subscriber
        self.entries: dict[str, Entry] = {}
        """What it holds, by event id, in the order of delivery."""
        self.ticket = stream.credits.join(self)

    def deliver(self, entry: Entry) -> None:
        """Hand an event on, and remember that it is held."""
        self.entries[entry.id] = entry
        self.subscriber.deliver(entry)

"""One event on its way to a consumer."""

from typing import TYPE_CHECKING

from broker.contracts.origin import Origin

if TYPE_CHECKING:
    from broker.streams.stream import Stream
    from broker.streams.subscription import Subscription

MEMORY_SEQ_FIRST = 2**52
"""Where the sequences of events that are only in memory start: they never meet one of the ledger, and a
client that reads numbers as doubles still reads them exactly."""


class Entry:
    """An event of a stream, from the moment it waits in the ring until it is acknowledged.

    `attempt` counts its deliveries, and fences the answers to them. `lease` is the key of its lease while it
    has one; every delivery has a new one, so that two streams, or two copies of one event, never share one.
    """

    __slots__ = (
        "attempt", "envelope", "first_attempt_at", "holder", "id", "lease", "origin", "partition", "received_at", "seq",
        "stream", "uncounted", "unsent",
    )  # fmt: skip

    def __init__(
        self,
        stream: "Stream",
        seq: int,
        event_id: str,
        envelope: bytes,
        received_at: int,
        partition: str | None,
        attempt: int = 0,
        origin: Origin | None = None,
    ) -> None:
        self.stream = stream
        self.seq = seq
        self.id = event_id
        self.envelope = envelope
        self.received_at = received_at
        """Microseconds since 1970: when the broker got it."""
        self.partition = partition
        """Events with the same one are delivered in order, one at a time; None for those without."""
        self.attempt = attempt
        self.origin = origin
        """Who published it on the bus; None for what came by another contract, whose envelope says it."""
        self.lease = 0
        self.holder: Subscription | None = None
        """Who has it; None while it waits or is delayed."""
        self.first_attempt_at: int | None = None
        self.unsent = False
        """Whether its subscriber says that its delivery has not left the broker yet."""
        self.uncounted = 0
        """How many deliveries had not left the broker when their lease ran out. Their numbers are not given again,
        because they may still leave late, and an answer to them must not be taken for one to another delivery."""

    @property
    def failures(self) -> int:
        """How many deliveries count against `maxDeliveries`, the one that is out included."""
        return self.attempt - self.uncounted

    @property
    def in_ledger(self) -> bool:
        """Whether the ledger has it, and wants to know what becomes of it."""
        return self.seq < MEMORY_SEQ_FIRST

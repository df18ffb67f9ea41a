from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, Generic, TypeVar

from _fast.counters import Counters
from _fast.histogram import Histogram
from _fast.leases import Leases

S = TypeVar("S")
"""What has the entries: a stream."""
H = TypeVar("H")
"""Who holds one: a subscription."""
E = TypeVar("E", bound=tuple[Any, ...])
"""An event as it was admitted."""

MEMORY_SEQ_FIRST: int
"""Where the sequences of events that are only in memory start: they never meet one of the ledger, and a
client that reads numbers as doubles still reads them exactly."""

class Entry(Generic[S, H]):
    """An event of a stream, from the moment it waits in the ring until it is acknowledged.

    A sequence that is negative, or no plain int, is refused, and so is a time that is none.

    `attempt` counts its deliveries, and fences the answers to them. `lease` is the key of its lease while it
    has one; every delivery has a new one, so that two streams, or two copies of one event, never share one.
    """

    stream: S
    seq: int
    id: str
    envelope: bytes
    received_at: int
    """Microseconds since 1970: when the broker got it."""
    partition: str | None
    """Events with the same one are delivered in order, one at a time; None for those without."""
    attempt: int
    origin: Any
    """Who published it on the bus; None for what came by another contract, whose envelope says it."""
    lease: int
    holder: H | None
    """Who has it; None while it waits or is delayed."""
    first_attempt_at: int | None
    unsent: bool
    """Whether its subscriber says that its delivery has not left the broker yet."""
    uncounted: int
    """How many deliveries had not left the broker when their lease ran out. Their numbers are not given again,
    because they may still leave late, and an answer to them must not be taken for one to another delivery."""

    def __init__(
        self,
        stream: S,
        seq: int,
        event_id: str,
        envelope: bytes,
        received_at: int,
        partition: str | None,
        attempt: int = 0,
        origin: Any = None,
    ) -> None: ...
    @property
    def failures(self) -> int:
        """How many deliveries count against `maxDeliveries`, the one that is out included."""

    @property
    def in_ledger(self) -> bool:
        """Whether the ledger has it, and wants to know what becomes of it."""

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias: ...

def stream_runs(events: list[tuple[int, E]]) -> list[tuple[str, list[tuple[int, E]]]]:
    """Events with their sequences, cut where the stream changes: its name, and those in a row that are of it."""

def entries_of(
    stream: S, events: list[tuple[int, E]], with_origin: str, origin_of: Callable[[E], Any]
) -> list[Entry[S, Any]]:
    """An entry for each event; those of the contract `with_origin` get what `origin_of` says."""

def envelope_bytes(entries: list[Entry[S, H]]) -> int:
    """How long their envelopes are, together."""

def any_partition(entries: list[Entry[S, H]]) -> bool:
    """Whether one of them has a partition key."""

def lease_out(
    entries: list[Entry[S, H]],
    holders: list[H],
    leases: Leases[Entry[S, H]],
    first_lease: int,
    deadline_ms: int,
    now_us: int,
    latency: Histogram,
    counters: Counters,
) -> dict[H, list[Entry[S, H]]]:
    """Give each entry, which is there once, to its holder: one attempt more, and a lease of its own, from the key
    `first_lease` on.

    Return what each holder got, in order. The latency of a first attempt is recorded, and each is counted. Raise
    ValueError, with nothing changed, when there are not as many holders as entries, no room for the leases, or
    something that `Leases.grant` would refuse; TypeError, with nothing changed, for what is no entry and for a holder
    that is None; and whatever the hash of a holder raises, with nothing changed.
    """

def hold(held: dict[int, Entry[S, H]], entries: list[Entry[S, H]]) -> None:
    """Put entries under their sequences; with something else among them, none of them."""

def let_go(
    held: dict[int, Entry[S, H]], keys: Sequence[int | str], leases: Leases[Entry[S, H]]
) -> tuple[list[Entry[S, H]], list[int]] | None:
    """Take entries out by their sequences, and end their leases; with those sequences that are not there.

    None, with nothing changed, when one of the keys is not a sequence.
    """

def changes_of(
    entries: list[Entry[S, H]], state: int, at: int
) -> list[tuple[int, int, int, int, int | None, str | None]]:
    """The change of state of each entry that the ledger has."""

def waiting_of(entries: list[Entry[S, H]]) -> list[tuple[Entry[S, H], int]]:
    """Each entry with its attempt, and marked as one that has not left; with something else among them, none is."""

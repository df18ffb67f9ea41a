from types import GenericAlias
from typing import Any, Generic, TypeVar

from _fast.entries import Entry
from _fast.leases import Leases

S = TypeVar("S")
"""What has the entries: a stream."""
H = TypeVar("H")
"""Who holds one: a subscription."""
T = TypeVar("T")
"""What answers it: a tap."""
D = TypeVar("D", bound=Handed[Any, Any, Any])
"""What a reader hands out: a delivery."""

class Handed(Generic[T, S, H]):
    """What every delivery within a process has: its event, and under which attempt who has it."""

    _tap: T
    _place: H
    _entry: Entry[S, H]
    _envelope: dict[str, Any] | None
    attempt: int
    """The number of this delivery of this event; 1 for the first since the broker was opened."""
    settled: bool
    """Whether it was acked or nacked."""

    def __init__(self, tap: T, place: H, entry: Entry[S, H]) -> None: ...
    @property
    def held(self) -> bool:
        """Whether it is still this reader's."""

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias: ...

def hand_out(kind: type[D], tap: object, place: H, entries: list[Entry[S, H]]) -> list[D]:
    """A delivery of the kind, which is made of `Handed`, for each entry, under the attempt that it has now."""

def still_held(deliveries: list[D]) -> list[D]:
    """Those whose event is still out under their attempt to who had it; the same list, if it is all of them."""

def entries_handed(deliveries: list[D]) -> list[Entry[Any, Any]]:
    """The event of each."""

def let_go_handed(
    held: dict[int, Entry[S, H]], deliveries: list[D], place: H, leases: Leases[Entry[S, H]]
) -> tuple[dict[S, list[Entry[S, H]]], list[D]] | None:
    """Take what was delivered out of what `place` holds, end its leases, and mark the deliveries as settled.

    Return the entries by their stream, and the deliveries that were not held any more. None, with nothing changed, when
    one of them is of another place, or is none.
    """

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from _fast.dedupe import Dedupe
from _fast.entries import Entry

S = TypeVar("S")
"""What has the entries: a stream."""
E = TypeVar("E", bound=tuple[Any, ...])
"""An event as it was admitted."""
R = TypeVar("R", bound=tuple[Any, ...])
"""A receipt: a named tuple of an id, a sequence, and whether it is a duplicate, and one with other bytes."""

def kinds_of(events: Sequence[E]) -> list[tuple[str, str]]:
    """The stream and the type of the events, once for each run of those that have the same."""

def claim_events(events: Sequence[E], dedupe: Dedupe, batch: int) -> bool:
    """Claim the identity of each event, its source and its id with a NUL between: whether all of them are new.

    If not, when there is no room for one, or when an error is raised, none of the batch is in flight afterwards.
    """

def entries_numbered(
    stream: S, events: Sequence[E], seqs: list[int], with_origin: str, origin_of: Callable[[E], Any]
) -> list[Entry[S, Any]]:
    """An entry for each event, with its sequence; those of the contract `with_origin` get what `origin_of` says.

    Raise ValueError unless there are as many sequences as events.
    """

def any_in_ledger(entries: list[Entry[S, Any]]) -> bool:
    """Whether one of them has a sequence of the ledger."""

def receipts_of(
    kind: type[R], events: Sequence[E], seqs: list[int], duplicates: dict[int, tuple[int, bool]]
) -> list[R] | None:
    """The receipt of each event. `seqs` and `duplicates` are as in `Receipts`; None when one was refused.

    Raise ValueError unless there are as many sequences as events, TypeError for a kind that is no tuple.
    """

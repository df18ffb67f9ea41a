"""What a reader was handed, in plain Python. The deliveries are the compiled ones: fields, and nothing else."""

from typing import Any

from _fast import Entry, Leases


def hand_out(kind: Any, tap: object, place: Any, entries: list[Entry[Any, Any]]) -> list[Any]:
    """A delivery for each entry."""
    return [kind(tap, place, entry) for entry in entries]


def is_held(delivery: Any) -> bool:
    """Whether its event is out to who had it, under its attempt."""
    entry = delivery._entry
    return entry.holder is delivery._place and entry.attempt == delivery.attempt


def still_held(deliveries: list[Any]) -> list[Any]:
    """Those that are."""
    return deliveries if all(map(is_held, deliveries)) else list(filter(is_held, deliveries))


def entries_handed(deliveries: list[Any]) -> list[Any]:
    """The event of each."""
    return [delivery._entry for delivery in deliveries]


def let_go_handed(
    held: dict[int, Any], deliveries: list[Any], place: object, leases: Leases[Any]
) -> tuple[dict[Any, list[Any]], list[Any]] | None:
    """Take out what is held, end its leases, and tell what was lost."""
    by_stream: dict[Any, list[Any]] = {}
    lost = []
    if any(getattr(delivery, "_place", None) is not place for delivery in deliveries):
        return None
    for delivery in deliveries:
        entry = delivery._entry
        if not is_held(delivery) or held.get(entry.seq) is not entry:
            lost.append(delivery)
            continue
        del held[entry.seq]
        entry.holder = None
        leases.release(entry.lease, entry.attempt)
        delivery.settled = True
        by_stream.setdefault(entry.stream, []).append(entry)
    return by_stream, lost

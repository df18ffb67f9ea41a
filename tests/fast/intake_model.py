"""What is done with many events in memory on their way in, in plain Python."""

from collections.abc import Callable, Sequence
from typing import Any

from _fast import MEMORY_SEQ_FIRST, Entry
from broker.contracts.inbound import InboundEvent


def _event(event: Any) -> InboundEvent:
    if not isinstance(event, tuple) or len(event) != len(InboundEvent._fields):
        raise TypeError("an event is a tuple of 18 fields")
    return event if isinstance(event, InboundEvent) else InboundEvent(*event)


def _check_count(events: Sequence[Any], seqs: list[int]) -> None:
    if len(events) != len(seqs):
        raise ValueError(f"there are {len(seqs)} sequences for {len(events)} events")


def kinds_of(events: Sequence[Any]) -> list[tuple[str, str]]:
    """The stream and the type of each run of events."""
    kinds: list[tuple[str, str]] = []
    for event in map(_event, events):
        if not kinds or kinds[-1] != (event.stream, event.type):
            kinds.append((event.stream, event.type))
    return kinds


def claim_events(events: Sequence[Any], dedupe: Any, batch: int) -> bool:
    """Claim all identities, or none."""
    if batch < 1:
        raise ValueError("a batch number is at least 1")
    try:
        for event in map(_event, events):
            identity = f"{event.source_system}\0{event.source_event_id}".encode()
            if dedupe.claim_many([identity], batch) != [0]:
                dedupe.abort_batch(batch)
                return False
    except BaseException:
        dedupe.abort_batch(batch)
        raise
    return True


def entries_numbered(
    stream: Any, events: Sequence[Any], seqs: list[int], with_origin: str, origin_of: Callable[[Any], Any]
) -> list[Entry[Any, Any]]:
    """An entry for each event."""
    _check_count(events, seqs)
    return [
        Entry(
            stream,
            seq,
            event.source_event_id,
            event.envelope,
            event.received_at,
            event.partition_key,
            origin=origin_of(event) if event.contract == with_origin else None,
        )
        for seq, event in zip(seqs, map(_event, events), strict=True)
    ]


def any_in_ledger(entries: list[Entry[Any, Any]]) -> bool:
    """Whether the ledger has one of them."""
    return any(entry.seq < MEMORY_SEQ_FIRST for entry in entries)


def receipts_of(
    kind: Any, events: Sequence[Any], seqs: list[int], duplicates: dict[int, tuple[int, bool]]
) -> list[Any] | None:
    """A receipt for each event."""
    if not issubclass(kind, tuple):
        raise TypeError("a receipt is a tuple")
    _check_count(events, seqs)
    made = []
    for place, (event, seq) in enumerate(zip(map(_event, events), seqs, strict=True)):
        if seq == 0:
            return None
        conflict = seq < 0 and bool(duplicates.get(place, (0, False))[1])
        made.append(kind(event.source_event_id, abs(seq), seq < 0, conflict))
    return made

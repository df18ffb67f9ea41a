"""What a handler gets (004, "Event Model")."""

from dataclasses import dataclass
from typing import Any

import msgspec

from broker.contracts.bus import TOPICS
from broker.streams.entry import Entry

_decode = msgspec.json.Decoder().decode
_SOURCES = "bus:"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a topic."""

    id: int
    """Its place in the journal."""
    topic: str
    source: str
    """Who published it: the id of an extension."""
    payload: dict[str, Any]
    created_at: float
    """Seconds since 1970."""
    correlation_id: str | None = None
    status: str = "processing"


def event_of(entry: Entry) -> Event:
    """The event of a delivery, decoded anew: what one handler does to its payload, no other one sees.

    What came to the topic's stream by another way than the bus says in its envelope what it is. Raise ValueError for
    a number that no float can hold.
    """
    topic, created_at = entry.stream.name.removeprefix(TOPICS), entry.received_at / 1e6
    document = _decode(entry.envelope)
    if entry.origin is not None:
        source = entry.origin.source_system.removeprefix(_SOURCES)
        return Event(entry.seq, topic, source, document, created_at, entry.origin.correlation_id)
    if not isinstance(document, dict) or "payload" not in document:
        return Event(entry.seq, topic, "", document, created_at)
    return Event(
        entry.seq, topic, document.get("from", ""), document["payload"], created_at, document.get("corr"),
    )  # fmt: skip

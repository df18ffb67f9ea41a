"""The one shape that every contract's events take on their way in (002).

A named tuple and not a class of its own: the commit loop walks its fields by position, in C, without
a call back into Python. The order of the fields is therefore the order of the parameters of
`journal.statements.INSERT_EVENT`, and a test holds the two together.
"""

from typing import NamedTuple


class InboundEvent(NamedTuple):
    """An admitted event. `envelope` holds the producer's JSON, byte for byte."""

    contract: str
    stream: str
    type: str
    source_system: str
    source_event_id: str
    received_at: int
    """Microseconds since 1970, by the broker's wall clock."""
    envelope: bytes
    payload_sha256: bytes | None
    """None for one that is hashed when it is written, which costs the loop nothing."""
    source_sequence: int | None = None
    source_emitted_at: str | None = None
    correlation_id: str | None = None
    event_id: str | None = None
    """The producer's own name of the event, where that is not its identity (001)."""
    dedupe_key: str | None = None
    schema_version: str | None = None
    partition_key: str | None = None
    """Events of one stream with the same key are delivered in order, one at a time (003, phase B)."""
    transport_attempt: int | None = None
    received_sha256: bytes | None = None
    """The hash of what was received, where a rule added to the envelope before it was stored."""
    notes: str | None = None
    """What the broker keeps beside the envelope, as a JSON object: what its headers said, what was found odd (001)."""

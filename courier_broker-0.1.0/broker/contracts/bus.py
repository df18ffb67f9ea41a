"""The event bus (004): topic `t` is the stream `topics/t`, and the payload is the envelope."""

import hashlib

from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8
from broker.contracts.names import stream_name_problem, text_problem
from broker.errors import InvalidRequest, TooLarge
from broker.limits import BUS_CORRELATION_BYTES_MAX, BUS_SOURCE_BYTES_MAX, ENVELOPE_BYTES_MAX

CONTRACT = "bus"

TOPICS = "topics/"
"""What stands before a topic in the name of its stream."""

_SOURCES = "bus:"


def stream_of(topic: str) -> str:
    """The stream of a topic."""
    return TOPICS + topic


def topic_of(stream: str) -> str:
    """The topic of a stream that is one."""
    return stream.removeprefix(TOPICS)


def source_system(source: str) -> str:
    """The first half of an event's identity: ids are unique within their source."""
    return _SOURCES + source


def topic_problem(topic: str) -> str | None:
    """What is wrong with `topic`, as a reason that a person can act on."""
    return "it is empty" if not topic else stream_name_problem(stream_of(topic))


def source_problem(source: str) -> str | None:
    """What is wrong with `source` as the id of an extension."""
    if ":" in source:
        return f'it has a ":" at position {source.index(":") + 1}, which separates the parts of an identity'
    return text_problem(source, BUS_SOURCE_BYTES_MAX)


def bus_event(
    topic: str, source: str, payload: bytes, correlation_id: str | None, event_id: str, received_at: int
) -> InboundEvent:
    """The event of a payload (JSON, as bytes); raise InvalidRequest or TooLarge for what cannot be one.

    `event_id` is the broker's own and unique within the source; `received_at` is in microseconds since 1970.
    """
    if (problem := topic_problem(topic)) is not None:
        raise InvalidRequest(f"topic: {problem}")
    if (problem := source_problem(source)) is not None:
        raise InvalidRequest(f"source: {problem}")
    if correlation_id is not None and (problem := text_problem(correlation_id, BUS_CORRELATION_BYTES_MAX)) is not None:
        raise InvalidRequest(f"correlation_id: {problem}")
    if len(payload) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"the payload has {len(payload)} bytes; at most {ENVELOPE_BYTES_MAX} are accepted")
    check_utf8(payload)
    check_depth(payload)
    return InboundEvent(
        CONTRACT,
        stream_of(topic),
        topic,
        source_system(source),
        event_id,
        received_at,
        payload,
        hashlib.sha256(payload).digest(),
        correlation_id=correlation_id,
    )

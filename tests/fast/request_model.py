"""The reader of plain requests in plain Python: the contract's own parser, on what it is asked for.

The compiled one may answer None to anything; what it answers else must be this.
"""

from itertools import groupby

from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth, check_utf8
from broker.errors import CourierError


def read(frame: bytes, received_at: int) -> list[InboundEvent] | None:
    """The events of a frame; None if one of its requests is refused, or all of it."""
    try:
        return [courier.parse_strictly(request, received_at) for request in courier.split_frame(frame)]
    except CourierError:
        return None


def read_one(body: bytes, received_at: int) -> InboundEvent | None:
    """The event of one request."""
    try:
        return courier.parse_strictly(body, received_at)
    except CourierError:
        return None


def read_envelope(to: str, raw: bytes, received_at: int) -> InboundEvent | None:
    """The event of an envelope without a request around it."""
    try:
        check_utf8(raw)
        check_depth(raw, levels_around=1)
        return courier.parse_envelope(to, raw, received_at)
    except CourierError:
        return None


def read_pairs(pairs: list[tuple[str, bytes]], received_at: int) -> tuple[list[InboundEvent], list[str]] | None:
    """The events of pairs of a stream and an envelope, and the stream of each run."""
    events = [read_envelope(to, raw, received_at) for to, raw in pairs]
    found = [event for event in events if event is not None]
    runs = [stream for stream, _ in groupby(event.stream for event in found)]
    return (found, runs) if len(found) == len(events) else None

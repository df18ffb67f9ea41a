"""The reader of plain requests in plain Python: the contract's own parser, on what it is asked for.

The compiled one may answer None to anything; what it answers else must be this.
"""

from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
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

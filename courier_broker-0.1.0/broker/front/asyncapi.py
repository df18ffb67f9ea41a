"""The AsyncAPI document: the WebSockets, from the table of endpoints and the shapes of their frames."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from broker.contracts.skyra import DeviceEvent
from broker.front import contract_shapes, shapes
from broker.front.endpoint import Endpoint
from broker.front.endpoints import ENDPOINTS
from broker.front.openapi import info
from broker.front.shapes import Shape
from broker.limits import (
    ARRAY_EVENTS_MAX,
    CREDIT_MAX,
    DELIVER_BATCH_MAX,
    EVENT_ID_BYTES_MAX,
    KEYS_PER_FRAME_MAX,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    NACK_DELAY_MS_MAX,
    REQUESTS_PER_FRAME_MAX,
    SEQ_MAX,
)

Key = Annotated[str, Meta(max_length=EVENT_ID_BYTES_MAX)] | Annotated[int, Meta(ge=1, le=SEQ_MAX)]
Keys = Key | Annotated[list[Key], Meta(min_length=1, max_length=KEYS_PER_FRAME_MAX)]
"""The ids or sequences of one event or of several."""
Attempt = Annotated[int, Meta(ge=1)] | msgspec.UnsetType


class Several(msgspec.Struct, frozen=True):
    """A frame that is an array of others, and so has no shape of its own."""

    name: str
    summary: str
    elements: Any


ENQUEUE_REQUESTS = Several(
    "EnqueueRequests",
    "Several events, committed together.",
    Annotated[list[shapes.EnqueueRequest], Meta(min_length=1, max_length=REQUESTS_PER_FRAME_MAX)],
)

DEVICE_EVENTS = Several(
    "DeviceEvents",
    "Several events of devices, committed together.",
    Annotated[list[DeviceEvent], Meta(min_length=1, max_length=ARRAY_EVENTS_MAX)],
)


class Window(Shape):
    """The first frame to a producer: so many events may be unanswered."""

    window: int


class PublishAck(msgspec.Struct, omit_defaults=True):
    """An event is on disk."""

    ack: str
    seq: shapes.Seq
    duplicate: bool
    payload_conflict: bool = False


class Credit(Shape):
    """Lets the broker deliver so many events more."""

    credit: Annotated[int, Meta(ge=1, le=CREDIT_MAX)]


class Ack(Shape):
    """An event is done, or several are."""

    ack: Keys
    attempt: Attempt = msgspec.UNSET


class Nack(Shape):
    """An event could not be done: back to the tail of its stream, after a delay if one is given."""

    nack: Keys
    delay_ms: Annotated[int, Meta(ge=0, le=NACK_DELAY_MS_MAX)] = 0
    attempt: Attempt = msgspec.UNSET


class Extend(Shape):
    """The lease of an event ends so many milliseconds from now."""

    extend: Keys
    lease_ms: Annotated[int, Meta(ge=LEASE_MS_MIN, le=LEASE_MS_MAX)]
    attempt: Attempt = msgspec.UNSET


class Delivery(Shape):
    """An event, with the number of its delivery."""

    deliver: Raw
    attempt: int
    seq: shapes.Seq


class BatchedDelivery(Shape):
    """An event among others in one frame."""

    envelope: Raw
    attempt: int
    seq: shapes.Seq


class DeliveryBatch(Shape):
    """Several events, for a subscriber that asked for batches."""

    deliver: Annotated[list[BatchedDelivery], Meta(min_length=1, max_length=DELIVER_BATCH_MAX)]


class ViewSnapshot(Shape, omit_defaults=True):
    """A view from its beginning: whatever the reader knew before is forgotten. `more`: the next frame goes on."""

    snapshot: dict[str, Raw]
    seq: Annotated[int, Meta(ge=0)]
    more: bool = False


class ViewDelta(Shape, omit_defaults=True):
    """What has changed: the last envelope of an address, or null when the view has forgotten it."""

    delta: dict[str, Raw]
    seq: Annotated[int, Meta(ge=0)]
    more: bool = False


class Shown(Shape):
    """An event that was committed; its envelope is null when it cannot be shown any more."""

    stream: str
    seq: shapes.Seq
    envelope: Raw


class Missed(Shape):
    """So many events came here that were not kept for this reader."""

    missed: Annotated[int, Meta(ge=1)]


FRAMES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "publish": ((shapes.EnqueueRequest, ENQUEUE_REQUESTS), (Window, PublishAck, shapes.Error)),
    "ingress": ((DeviceEvent, DEVICE_EVENTS), (Window, contract_shapes.SkyraAck, contract_shapes.SkyraNack)),
    "subscribe": ((Credit, Ack, Nack, Extend), (Delivery, DeliveryBatch, shapes.Error)),
    "live": ((), (ViewSnapshot, ViewDelta, shapes.Error)),
    "tail": ((), (Shown, Missed, shapes.Error)),
}
"""What each socket takes, and what it sends."""

_REFERENCE = "#/components/schemas/{name}"


def asyncapi() -> dict[str, Any]:
    """The document, version 3.0."""
    sockets = [endpoint for endpoint in ENDPOINTS if endpoint.is_socket]
    kinds = dict.fromkeys(kind for endpoint in sockets for way in FRAMES[endpoint.name] for kind in way)
    payloads, schemas = msgspec.json.schema_components(
        [kind.elements if isinstance(kind, Several) else kind for kind in kinds], ref_template=_REFERENCE
    )
    operations: dict[str, Any] = {}
    for endpoint in sockets:
        taken, sent = FRAMES[endpoint.name]
        if taken:
            operations[f"{endpoint.name}.receive"] = _operation(endpoint, "receive", taken)
        operations[f"{endpoint.name}.send"] = _operation(endpoint, "send", sent)
    return {
        "asyncapi": "3.0.0",
        "info": info("Courier over WebSocket"),
        "channels": {endpoint.name: _channel(endpoint) for endpoint in sockets},
        "operations": operations,
        "components": {
            "schemas": schemas,
            "messages": {
                _name(kind): {
                    "contentType": "application/json",
                    "summary": kind.summary if isinstance(kind, Several) else (kind.__doc__ or "").strip(),
                    "payload": payload,
                }
                for kind, payload in zip(kinds, payloads, strict=True)
            },
        },
    }


def _name(kind: Any) -> str:
    return str(kind.name if isinstance(kind, Several) else kind.__name__)


def _channel(endpoint: Endpoint) -> dict[str, Any]:
    taken, sent = FRAMES[endpoint.name]
    channel: dict[str, Any] = {
        "address": endpoint.path,
        "summary": endpoint.summary,
        "description": f"A token needs the scope `{endpoint.scope}`.",
        "messages": {
            _name(kind): {"$ref": f"#/components/messages/{_name(kind)}"} for kind in dict.fromkeys((*taken, *sent))
        },
    }
    if endpoint.parameters:
        query = {each.name: {**each.schema, "description": each.meaning} for each in endpoint.parameters}
        schema = {
            "type": "object",
            "properties": query,
            "required": [each.name for each in endpoint.parameters if each.is_required],
        }
        channel["bindings"] = {"ws": {"query": schema}}
    return channel


def _operation(endpoint: Endpoint, action: str, kinds: tuple[Any, ...]) -> dict[str, Any]:
    """What the broker does: it receives what a client sends."""
    channel = f"#/channels/{endpoint.name}"
    return {
        "action": action,
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{_name(kind)}"} for kind in kinds],
    }

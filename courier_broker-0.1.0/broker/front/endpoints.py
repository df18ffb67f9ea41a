"""Every endpoint of the broker, described once; the OpenAPI and AsyncAPI documents are generated from it.

A test compares it with the routes of a running broker, so whoever adds a route adds its description here.
"""

from typing import Any

from broker.config import Trigger
from broker.contracts.cloudevents import BATCHED, STRUCTURED, CloudEvent
from broker.contracts.skyra import DeviceEvent
from broker.front import contract_shapes, rejections, shapes, trigger_shapes
from broker.front.endpoint import LIMIT, Endpoint, Many, Parameter, in_path, integer, text
from broker.front.requests import JSON, NDJSON, TEXT
from broker.front.schedule_endpoints import SCHEDULE_ENDPOINTS
from broker.front.sources import SourceList
from broker.limits import (
    DELIVER_BATCH_MAX,
    GROUP_NAME_BYTES_MAX,
    SEQ_MAX,
    STREAM_NAME_BYTES_MAX,
)

_EXAMPLE_STREAM = "agents/Jen/inbox"
_STREAM_NAME = {"pattern": "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$", "maxLength": STREAM_NAME_BYTES_MAX}
_STREAM = in_path("stream", "the name of a stream", _EXAMPLE_STREAM, **_STREAM_NAME)
_SEQ = Parameter("seq", "path", {"type": "integer", "minimum": 1, "maximum": SEQ_MAX}, "the sequence of an event", 1)
_EXAMPLE_REQUEST = {
    "to": _EXAMPLE_STREAM,
    "envelope": {
        "id": "e-91a",
        "ts": "2025-10-18T19:55:00Z",
        "to": _EXAMPLE_STREAM,
        "type": "sprint.assign",
        "payload": {"wave": "B", "title": "Plan xenoctl CLI"},
    },
}
_EXAMPLE_DEVICE_EVENT = {
    "schema_version": 1,
    "event_id": "evt_01JZ4J1NZ0A1G8R4J8X3P4H2WG",
    "type": "proposal.task",
    "ts": "2026-02-16T23:10:21Z",
    "session_id": "sess_01JZ4J1M9V52K8GSRP8YQ0N2YA",
    "device_id": "pi-livingroom-01",
    "payload": {"intent": "server.log_summary", "confidence": 0.84},
}
_EXAMPLE_PLUGIN_EVENT = {
    "envelope": {
        "event_name": "pixel_control.lifecycle.maniaplanet_beginmatch",
        "schema_version": "2026-02-19.1",
        "event_id": "pc-evt-lifecycle-maniaplanet_beginmatch-1739980000001",
        "event_category": "lifecycle",
        "source_callback": "ManiaPlanet.BeginMatch",
        "source_sequence": 1739980000001,
        "source_time": 1739980000,
        "idempotency_key": "pc-idem-7a6c3048c4b6e4a2df4f59650e2dc71bdffb3e65",
        "payload": {},
        "metadata": {},
    },
    "transport": {"attempt": 1, "max_attempts": 3, "retry_backoff_ms": 250, "auth_mode": "api_key"},
}
_EXAMPLE_CLOUDEVENT = {
    "specversion": "1.0",
    "id": "A234-1234-1234",
    "source": "https://example.com/sensors",
    "type": "com.example.door.opened",
    "subject": "sensors/door",
    "data": {"open": True},
}
_EXAMPLE_RULE = {
    "id": "trig.jen.log.notify.architect",
    "when": {"type": "sprint.log", "from": "agents/Jen/outbox"},
    "do": [
        {
            "action": "notify",
            "to": "agents/architect/inbox",
            "payload": {"title": "Jen posted sprint log", "ref": "${env.id}"},
        }
    ],
    "limits": {"cooldownMs": 5000},
}
_TRIGGER = in_path("id", "the id of a rule", "trig.jen.log.notify.architect")
_FILTER = (
    text("stream", "only of this stream; * stands for anything"),
    text("type", "only of this type"),
    text("reason", "only with this text in the reason"),
    text("group", "those of this consumer group; without it, those of the streams themselves"),
)
_GROUP = _FILTER[-1]

_VIEW = Parameter("view", "query", {"type": "string", "minLength": 1}, "the name of a view", "latestPerAgent")

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/livez", "livez", "The process is there", needs_token=False, answers={JSON: shapes.Alive}),
    Endpoint(
        "GET", "/readyz", "readyz", "Whether events are taken, and what an acknowledgement means",
        needs_token=False, answers={JSON: shapes.Readiness}, not_ready=shapes.Readiness,
    ),
    Endpoint(
        "POST", "/v1/enqueue", "enqueue", "Store one event, or many as lines of JSON; answered when they are on disk",
        "streams:STREAM:enqueue",
        bodies={JSON: shapes.EnqueueRequest, NDJSON: shapes.EnqueueRequest},
        example=_EXAMPLE_REQUEST,
        answers={JSON: shapes.EnqueueReply, NDJSON: (shapes.EnqueueReply, shapes.Error)},
    ),
    Endpoint(
        "GET", "/v1/publish", "publish", "A WebSocket that takes events and acknowledges them",
        "streams:STREAM:enqueue",
    ),
    Endpoint(
        "POST", "/v1/events", "deviceEvents",
        "Store an event of a device, or an array of them; answered when they are on disk", "devices:DEVICE",
        bodies={JSON: (DeviceEvent, Many((DeviceEvent,)))},
        example=_EXAMPLE_DEVICE_EVENT,
        answers={JSON: (contract_shapes.SkyraAck, Many((contract_shapes.SkyraAck, contract_shapes.SkyraNack)))},
    ),
    Endpoint(
        "POST", "/plugin/events", "pluginEvents",
        "Store an event of a game-server plugin; refusals are answered with 200 too", "streams:pixel/CATEGORY:enqueue",
        bodies={JSON: contract_shapes.PixelRequest},
        example=_EXAMPLE_PLUGIN_EVENT,
        answers={JSON: (contract_shapes.PixelAcceptance, contract_shapes.PixelRefusal)},
    ),
    Endpoint(
        "POST", "/v1/cloudevents", "cloudevents",
        "Store CloudEvents 1.0, structured, batched, or binary (attributes in ce- headers, any content type)",
        "streams:STREAM:enqueue",
        bodies={STRUCTURED: CloudEvent, BATCHED: Many((CloudEvent,))},
        example=_EXAMPLE_CLOUDEVENT,
        answers={JSON: (shapes.EnqueueReply, Many((shapes.EnqueueReply,)))},
    ),
    Endpoint(
        "GET", "/v1/ingress", "ingress", "A WebSocket that takes the events of devices and acknowledges them",
        "devices:DEVICE",
    ),
    Endpoint(
        "GET", "/v1/subscribe", "subscribe", "A WebSocket that delivers the events of streams",
        "streams:STREAM:subscribe",
        parameters=(
            Parameter("stream", "query", {"type": "string"}, "the name of a stream, or a pattern of names"),
            Parameter(
                "batch", "query", {"type": "integer", "minimum": 1, "maximum": DELIVER_BATCH_MAX},
                "how many envelopes one frame may carry", is_required=False,
            ),
            Parameter(
                "group", "query", {"type": "string", "minLength": 1, "maxLength": GROUP_NAME_BYTES_MAX},
                "a consumer group, which has a copy of the streams of its own", is_required=False,
            ),
            Parameter(
                "from", "query", {"type": "string", "enum": ["start", "now"], "default": "start"},
                "where a new group begins", is_required=False,
            ),
        ),
    ),
    Endpoint(
        "GET", "/v1/tail", "tail", "A WebSocket that shows new events without consuming them",
        "streams:STREAM:subscribe",
        parameters=(
            Parameter("stream", "query", {"type": "string"}, "the name of a stream, or a pattern of names"),
            Parameter(
                "from", "query", {"type": ["string", "integer"], "default": "now"},
                "the first sequence of the ledger to show, or now for new events only", is_required=False,
            ),
        ),
    ),
    Endpoint(
        "GET", "/v1/stats", "stats", "Many streams in figures", "streams:STREAM:subscribe",
        parameters=(
            text("stream", "only streams of this name or pattern"), text("after", "only names behind this one"),
            LIMIT,
        ),
        answers={JSON: shapes.FiguresPage},
    ),
    Endpoint(
        "GET", "/v1/streams", "listStreams", "The streams that the caller may subscribe to",
        "streams:STREAM:subscribe",
        parameters=(text("after", "only names behind this one"), LIMIT), answers={JSON: shapes.StreamList},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/stats", "streamStats", "A stream in figures", "streams:STREAM:subscribe",
        parameters=(_STREAM,), answers={JSON: shapes.StreamStats},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/events", "browseEvents", "The events of a stream, without consuming them",
        "streams:STREAM:subscribe",
        parameters=(_STREAM, integer("from", "the first sequence to look at", 1, SEQ_MAX, 1), LIMIT),
        answers={JSON: shapes.EventPage},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/groups", "streamGroups", "The consumer groups that have a copy of a stream",
        "streams:STREAM:subscribe", parameters=(_STREAM,), answers={JSON: shapes.StreamGroups},
    ),
    Endpoint(
        "GET", "/v1/groups", "listGroups", "The consumer groups of streams that the caller may subscribe to",
        "streams:STREAM:subscribe", answers={JSON: shapes.GroupList},
    ),
    Endpoint(
        "DELETE", "/v1/groups/{group}", "deleteGroup", "Take a consumer group's copies of streams away",
        "admin:*",
        parameters=(
            in_path("group", "the name of the group", "billing"),
            text("stream", "the stream or the pattern, as the list of groups shows it"),
        ),
        answers={JSON: shapes.GroupDeleted},
    ),
    Endpoint(
        "GET", "/v1/receipts/{source}/{id}", "receipt", "What became of one event", "streams:STREAM:subscribe",
        parameters=(
            in_path("source", "where it came from: stream:NAME", f"stream:{_EXAMPLE_STREAM}"),
            in_path("id", "its id", "e-91a"),
        ),
        answers={JSON: (shapes.Receipt, rejections.RejectedReceipt)},
    ),
    Endpoint(
        "GET", "/v1/receipts", "rejectedReceipts", "What was refused for good, of the caller, or for operators of all",
        parameters=(
            Parameter("status", "query", {"type": "string", "enum": [rejections.REJECTED]}, "which receipts"),
            text("source", "only of this source: the name of a token, or source:NAME"),
            integer("after", "only behind this number", 0, SEQ_MAX, 0),
            LIMIT,
        ),
        answers={JSON: rejections.RejectedPage},
    ),
    Endpoint(
        "GET", "/v1/dead-letters", "listDeadLetters", "Dead letters of streams that the caller may subscribe to",
        "streams:STREAM:subscribe",
        parameters=(*_FILTER, integer("after", "only behind this sequence", 0, SEQ_MAX, 0), LIMIT),
        answers={JSON: shapes.DeadLetterPage},
    ),
    Endpoint(
        "GET", "/v1/dead-letters/{seq}", "inspectDeadLetter", "One dead letter with its envelope",
        "streams:STREAM:subscribe", parameters=(_SEQ, _GROUP), answers={JSON: shapes.DeadLetterWhole},
    ),
    Endpoint(
        "POST", "/v1/dead-letters/{seq}/replay", "replayDeadLetter", "Send a dead letter to its stream again",
        "admin:*", parameters=(_SEQ, _GROUP), answers={JSON: shapes.Replayed},
    ),
    Endpoint(
        "POST", "/v1/dead-letters/{seq}/discard", "discardDeadLetter", "Let a dead letter go",
        "admin:*", parameters=(_SEQ, _GROUP), bodies={JSON: shapes.DiscardRequest}, example={"reason": "known bug"},
        answers={JSON: shapes.Discarded},
    ),
    Endpoint(
        "POST", "/v1/dead-letters/replay", "replayDeadLetters", "Send all dead letters that match to their streams",
        "admin:*", bodies={JSON: shapes.BulkReplayRequest},
        answers={JSON: shapes.Matching, NDJSON: (shapes.ProgressLine, shapes.Error)},
    ),
    Endpoint(
        "POST", "/v1/dead-letters/discard", "discardDeadLetters", "Let all dead letters that match go",
        "admin:*", bodies={JSON: shapes.BulkDiscardRequest},
        answers={JSON: shapes.Matching, NDJSON: (shapes.ProgressLine, shapes.Error)},
    ),
    Endpoint(
        "GET", "/v1/triggers", "listTriggers", "The rules, and what they have done", "admin:*",
        answers={JSON: trigger_shapes.TriggerList},
    ),
    Endpoint(
        "POST", "/v1/triggers/test", "testTriggers", "What rules would make of an envelope; nothing is stored",
        "admin:*", bodies={JSON: trigger_shapes.TriggerTest}, example={"envelope": _EXAMPLE_REQUEST["envelope"]},
        answers={JSON: trigger_shapes.TriggerTried},
    ),
    Endpoint(
        "GET", "/v1/triggers/{id}", "showTrigger", "One rule, and what it has done", "admin:*",
        parameters=(_TRIGGER,), answers={JSON: trigger_shapes.TriggerShown},
    ),
    Endpoint(
        "PUT", "/v1/triggers/{id}", "putTrigger", "Add or replace a rule; answered when it is on disk", "admin:*",
        parameters=(_TRIGGER,), bodies={JSON: Trigger}, example=_EXAMPLE_RULE,
        answers={JSON: trigger_shapes.TriggerShown},
    ),
    Endpoint(
        "DELETE", "/v1/triggers/{id}", "deleteTrigger", "Remove a rule", "admin:*",
        parameters=(_TRIGGER,), answers={JSON: trigger_shapes.TriggerDeleted},
    ),
    *SCHEDULE_ENDPOINTS,
    Endpoint(
        "GET", "/v1/sources", "listSources", "The sources that the broker pulls from, and how each is doing", "admin:*",
        answers={JSON: SourceList},
    ),
    Endpoint(
        "GET", "/v1/why", "findEvent", "Which event is meant, by its id alone or by its sequence",
        "streams:STREAM:subscribe",
        parameters=(
            text("id", "its id; give this or seq"),
            text("stream", "with id: only on this stream"),
            text("source", "with id: only from this source"),
            Parameter("seq", "query", {"type": "integer", "minimum": 1, "maximum": SEQ_MAX}, "its sequence"),
        ),
        answers={JSON: trigger_shapes.WhyFound},
    ),
    Endpoint(
        "GET", "/v1/why/{source}/{id}", "why", "The whole life of one event", "streams:STREAM:subscribe",
        parameters=(
            in_path("source", "where it came from: stream:NAME", f"stream:{_EXAMPLE_STREAM}"),
            in_path("id", "its id", "e-91a"),
        ),
        answers={JSON: trigger_shapes.Why},
    ),
    Endpoint(
        "GET", "/v1/snapshot", "snapshot", "A view as it is now, with the sequence that it is true for",
        "views:VIEW:read", parameters=(_VIEW,), answers={JSON: shapes.Snapshot},
    ),
    Endpoint(
        "GET", "/v1/live", "live", "A WebSocket that sends a view as it is, and then its changes",
        "views:VIEW:read", parameters=(_VIEW,),
    ),
    Endpoint(
        "GET", "/metrics", "metrics", "How the broker is doing, for Prometheus", "metrics:read", answers={TEXT: str},
    ),
    Endpoint("GET", "/openapi.json", "openapi", "The HTTP endpoints, for programs", answers={JSON: dict[str, Any]}),
    Endpoint("GET", "/asyncapi.json", "asyncapi", "The WebSockets, for programs", answers={JSON: dict[str, Any]}),
)  # fmt: skip

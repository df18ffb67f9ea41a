"""The endpoints of what is put off, and of what recurs."""

from broker.front import schedule_shapes
from broker.front.endpoint import LIMIT, Endpoint, Parameter, in_path, text
from broker.front.requests import JSON
from broker.limits import RECURRING_NAME_BYTES_MAX, SEQ_MAX

_DEFERRED = Parameter(
    "id", "path", {"type": "integer", "minimum": 1, "maximum": SEQ_MAX}, "the id of what is put off", 1
)
_RECURRING_NAME = {"pattern": "^[A-Za-z0-9._-]*[A-Za-z_-][A-Za-z0-9._-]*$", "maxLength": RECURRING_NAME_BYTES_MAX}
_RECURRING = in_path("name", "the name of what recurs", "stand-up", **_RECURRING_NAME)

SCHEDULE_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST", "/v1/schedule", "putOff",
        "Put an event off until a time; answered when that is on disk. The same id, or key, is put off once",
        "streams:STREAM:enqueue",
        bodies={JSON: (schedule_shapes.DeferEnvelope, schedule_shapes.DeferTopic)},
        example={"topic": "reminder.due", "payload": {"text": "Drink water"}, "delayMs": 60_000, "key": "water-1"},
        answers={JSON: schedule_shapes.Scheduled},
    ),
    Endpoint(
        "GET", "/v1/schedule", "listDeferred", "What is put off, the next one first", "streams:STREAM:enqueue",
        parameters=(
            text("stream", "only for this stream or pattern"), text("after", "behind what the last page ended"), LIMIT,
        ),
        answers={JSON: schedule_shapes.DeferredPage},
    ),
    Endpoint(
        "GET", "/v1/schedule/{id}", "showDeferred", "One event that is put off, or was", "streams:STREAM:enqueue",
        parameters=(_DEFERRED,), answers={JSON: schedule_shapes.DeferredWhole},
    ),
    Endpoint(
        "DELETE", "/v1/schedule/{id}", "cancelDeferred", "Let what is put off never happen", "streams:STREAM:enqueue",
        parameters=(_DEFERRED,), answers={JSON: schedule_shapes.Cancelled},
    ),
    Endpoint(
        "GET", "/v1/recurring", "listRecurring", "What recurs, by name", "streams:STREAM:enqueue",
        answers={JSON: schedule_shapes.RecurringList},
    ),
    Endpoint(
        "GET", "/v1/recurring/{name}", "showRecurring", "One thing that recurs", "streams:STREAM:enqueue",
        parameters=(_RECURRING,), answers={JSON: schedule_shapes.Recurs},
    ),
    Endpoint(
        "PUT", "/v1/recurring/{name}", "putRecurring", "Let an event recur; answered when that is on disk",
        "streams:STREAM:enqueue", parameters=(_RECURRING,),
        bodies={JSON: (schedule_shapes.RecurOnStream, schedule_shapes.RecurOnTopic)},
        example={"topic": "standup.due", "payload": {}, "cron": "0 9 * * MON-FRI", "tz": "Europe/Berlin"},
        answers={JSON: schedule_shapes.Recurs},
    ),
    Endpoint(
        "DELETE", "/v1/recurring/{name}", "deleteRecurring", "Let it recur no more", "streams:STREAM:enqueue",
        parameters=(_RECURRING,), answers={JSON: schedule_shapes.RecursNoMore},
    ),
)  # fmt: skip

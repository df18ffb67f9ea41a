"""What is put off, as it is on the wire: what is asked, and what is answered."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from broker.contracts.courier import Envelope
from broker.front.shapes import Seq, Shape
from broker.limits import (
    RECURRING_CRON_BYTES_MAX,
    RECURRING_EVERY_MS_MAX,
    RECURRING_EVERY_MS_MIN,
    SCHEDULE_AHEAD_SECONDS_MAX,
    SCHEDULE_KEY_BYTES_MAX,
)

At = Annotated[datetime, Meta(tz=True)]
DelayMs = Annotated[int, Meta(ge=0, le=SCHEDULE_AHEAD_SECONDS_MAX * 1000)]
Status = Literal["scheduled", "fired", "cancelled"]


class DeferEnvelope(Shape):
    """An envelope for a stream, and when: `at` a moment, or after `delayMs`."""

    to: str
    envelope: Envelope
    at: At | UnsetType = UNSET
    delay_ms: DelayMs | UnsetType = UNSET


class DeferTopic(Shape):
    """A payload for a topic of the event bus, and when."""

    topic: str
    payload: dict[str, Any]
    correlation_id: str | UnsetType = UNSET
    key: Annotated[str, Meta(min_length=1, max_length=SCHEDULE_KEY_BYTES_MAX)] | UnsetType = UNSET
    at: At | UnsetType = UNSET
    delay_ms: DelayMs | UnsetType = UNSET


class DeferRequest(Shape, forbid_unknown_fields=True):
    """Either of the two, with the producer's JSON as it came."""

    to: str | UnsetType = UNSET
    envelope: Raw | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    correlation_id: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    at: At | UnsetType = UNSET
    delay_ms: DelayMs | UnsetType = UNSET


class Scheduled(Shape, omit_defaults=True):
    """An event that is put off, on disk."""

    id: Seq
    status: Status
    fire_at: str
    duplicate: bool
    payload_conflict: bool = False


class Deferred(Shape):
    """An event that is put off, or was."""

    id: Seq
    stream: str
    source: str
    event_id: str | None
    status: Status
    created_at: str
    fire_at: str
    fired_at: str | None
    seq: int | None
    """Which event it became."""
    attempts: int
    """How often it was due and not taken."""
    retry_at: str | None
    error: str | None


class DeferredPage(Shape):
    """What waits, the next one first."""

    deferred: list[Deferred]
    next: str | None


class DeferredWhole(Deferred):
    """One of them with its envelope, or payload; null for a caller who may not subscribe to its stream."""

    envelope: Raw


class Cancelled(Shape):
    """What became of a cancellation."""

    id: Seq
    cancelled: bool
    """Whether it was this request that did it."""
    status: Status


Missed = Literal["skip", "once", "all"]
Cron = Annotated[str, Meta(min_length=1, max_length=RECURRING_CRON_BYTES_MAX)]
EveryMs = Annotated[int, Meta(ge=RECURRING_EVERY_MS_MIN, le=RECURRING_EVERY_MS_MAX)]


class RecurOnStream(Shape):
    """Events for a stream, and when: `cron` in the time zone `tz`, or `everyMs`."""

    to: str
    payload: Any
    type: str = "message"
    from_: str | UnsetType = field(name="from", default=UNSET)
    cron: Cron | UnsetType = UNSET
    tz: str = "UTC"
    every_ms: EveryMs | UnsetType = UNSET
    missed: Missed = "once"


class RecurOnTopic(Shape):
    """Payloads for a topic of the event bus, and when."""

    topic: str
    payload: dict[str, Any]
    correlation_id: str | UnsetType = UNSET
    cron: Cron | UnsetType = UNSET
    tz: str = "UTC"
    every_ms: EveryMs | UnsetType = UNSET
    missed: Missed = "once"


class RecurRequest(Shape, forbid_unknown_fields=True):
    """Either of the two, with the payload's JSON as it came."""

    payload: Raw
    to: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    from_: str | UnsetType = field(name="from", default=UNSET)
    topic: str | UnsetType = UNSET
    correlation_id: str | UnsetType = UNSET
    cron: str | None = None
    tz: str = "UTC"
    every_ms: int | None = None
    missed: Missed = "once"


class Recurs(Shape):
    """Something that recurs."""

    name: str
    stream: str
    cron: str | None
    tz: str | None
    every_ms: int | None
    missed: Missed
    next_at: str | None
    last_at: str | None
    """When the last run was planned."""
    error: str | None
    """Why the next run, though due, was not taken."""


class RecurringList(Shape):
    """All of them that the caller may see, by name."""

    recurring: list[Recurs]


class RecursNoMore(Shape):
    """It is gone."""

    name: str
    deleted: bool

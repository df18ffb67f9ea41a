"""What the endpoints of the contracts besides Courier's own take and answer, as types; as in `shapes`."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from broker.front.shapes import ErrorDetail


class SkyraAck(msgspec.Struct, omit_defaults=True):
    """A device's event that is on disk; `ack_ts` is when it was first received."""

    event_id: str
    ack_ts: str
    status: Literal["stored"]
    duplicate: bool = False
    payload_conflict: bool = False


class SkyraNack(msgspec.Struct, omit_defaults=True):
    """A device's event that is not stored: `rejected` for good, or `error` where a retry can help."""

    status: Literal["rejected", "error"]
    error: ErrorDetail
    event_id: str | None = None


class PixelEnvelope(msgspec.Struct, forbid_unknown_fields=True):
    """An event of a plugin; its JSON Schema has the patterns of its texts."""

    event_name: str
    schema_version: str
    event_id: str
    event_category: Literal["connectivity", "lifecycle", "player", "combat", "mode"]
    source_callback: Annotated[str, Meta(min_length=1)]
    source_sequence: Annotated[int, Meta(ge=1)]
    source_time: Annotated[int, Meta(ge=0)]
    idempotency_key: Annotated[str, Meta(pattern="^pc-idem-[0-9a-fA-F]{40}$")]
    payload: dict[str, Any]
    metadata: dict[str, Any]


class PixelTransport(msgspec.Struct, forbid_unknown_fields=True):
    """What the plugin says about this delivery."""

    attempt: Annotated[int, Meta(ge=1)]
    max_attempts: Annotated[int, Meta(ge=1)]
    retry_backoff_ms: Annotated[int, Meta(ge=0)]
    auth_mode: Literal["none", "bearer", "api_key"]


class PixelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An event of a plugin on its way."""

    envelope: PixelEnvelope
    transport: PixelTransport


class PixelAccepted(msgspec.Struct):
    """An event of a plugin that is on disk, once or again."""

    status: Literal["accepted"]
    disposition: Literal["processed", "duplicate"]
    event_id: str
    idempotency_key: str
    dedupe_key: str
    received_at: str


class PixelRejected(msgspec.Struct, omit_defaults=True):
    """An event of a plugin that was refused."""

    status: Literal["rejected"]
    code: str
    message: str
    retryable: bool
    retry_after_seconds: int
    pointer: str | None = None


class PixelAcceptance(msgspec.Struct):
    """The answer to an event that was taken."""

    ack: PixelAccepted


class PixelRefusal(msgspec.Struct):
    """The answer to an event that was refused."""

    ack: PixelRejected

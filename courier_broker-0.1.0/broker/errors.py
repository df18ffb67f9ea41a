"""Everything that the broker refuses, as one tree.

    CourierError                          code                    status  retry  close
    ├─ ConfigError                        (never on the wire)
    ├─ InvalidRequest                     invalid_request            400     no   1007
    │  ├─ InvalidEnvelope                 invalid_envelope           400     no   1007
    │  │  └─ UnsupportedSchemaVersion     schema_version_unsupported 400     no   1007
    │  ├─ InvalidTransport                invalid_transport          400     no   1007
    │  └─ UnsupportedContentType          unsupported_content_type   415     no   1003
    ├─ Unauthorized                       unauthorized               401     no   4401
    ├─ Forbidden                          forbidden                  403     no   4403
    ├─ UnknownStream                      unknown_stream             404     no   4404
    ├─ NotFound                           not_found                  404     no   4404
    ├─ RequestTimeout                     request_timeout            408    yes   4408
    ├─ LeaseNotHeld                       lease_not_held             409     no   4409
    ├─ InUse                              in_use                     409     no   4409
    ├─ ReadOnly                           read_only                  409     no   4409
    ├─ TooLarge                           too_large                  413     no   1009
    ├─ OverQuota                          over_quota                 429    yes   4429
    ├─ Saturated                          saturated                  503    yes   1013
    ├─ Draining                           draining                   503    yes   1001
    ├─ StorageUnavailable                 storage_unavailable        503    yes   1013
    │  ├─ StorageFailed                   storage_failed             503    yes   1011
    │  ├─ EffectFailed                    effect_failed              503    yes   1013
    │  └─ IngestionUnavailable            ingestion_unavailable      503    yes   1013
    └─ DiskFull                           disk_full                  507    yes   1013

Code, HTTP status, whether a retry can help and the WebSocket close code are stated once, on the
class; `front/replies.py` turns an instance into bytes. A client that sees a 4xx knows that nothing was
stored; after a 5xx, a time-out or a cut line it knows nothing, and must ask again with the same id.
"""

from typing import Any, ClassVar


class CourierError(Exception):
    """Base of every refusal; `message` says what was wrong, where, and what to do."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    close_code: ClassVar[int] = 1011

    def __init__(self, message: str, *, retry_after_seconds: int | None = None, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = retry_after_seconds if retry_after_seconds is not None else int(self.retryable)
        self.detail = detail

    def as_dict(self) -> dict[str, Any]:
        """The one error shape of every endpoint, without its outer `error` key."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "retry_after_seconds": self.retry_after_seconds,
            **self.detail,
        }


class ConfigError(CourierError):
    """The configuration cannot be used; `problems` holds one line for each thing that is wrong."""

    code = "config_invalid"

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class InvalidRequest(CourierError):
    """The request does not have the shape that its endpoint asks for."""

    code = "invalid_request"
    status = 400
    close_code = 1007


class InvalidEnvelope(InvalidRequest):
    """The envelope lacks a field, or a field has the wrong type or is out of bounds."""

    code = "invalid_envelope"


class UnsupportedSchemaVersion(InvalidEnvelope):
    """The envelope is of a version of its contract that is not known here."""

    code = "schema_version_unsupported"


class InvalidTransport(InvalidRequest):
    """What a Pixel request says about its own delivery lacks a field, or a field is wrong."""

    code = "invalid_transport"


class UnsupportedContentType(InvalidRequest):
    """The body is not declared as JSON, which a form on a web page could not do."""

    code = "unsupported_content_type"
    status = 415
    close_code = 1003


class Unauthorized(CourierError):
    """No token, or one that is not known."""

    code = "unauthorized"
    status = 401
    close_code = 4401


class Forbidden(CourierError):
    """A known token without the scope that this asks for, or a Host or Origin that is not allowed."""

    code = "forbidden"
    status = 403
    close_code = 4403


class UnknownStream(CourierError):
    """The stream is not configured, and streams are not created on first use."""

    code = "unknown_stream"
    status = 404
    close_code = 4404


class NotFound(CourierError):
    """There is no such resource."""

    code = "not_found"
    status = 404
    close_code = 4404


class RequestTimeout(CourierError):
    """The request did not arrive in full within `server.readTimeoutMs`."""

    code = "request_timeout"
    status = 408
    retryable = True
    close_code = 4408


class LeaseNotHeld(CourierError):
    """An ack, nack or extend of a delivery that this subscriber does not hold (any more)."""

    code = "lease_not_held"
    status = 409
    close_code = 4409


class InUse(CourierError):
    """It cannot be removed while somebody uses it."""

    code = "in_use"
    status = 409
    close_code = 4409


class ReadOnly(CourierError):
    """Something that the configuration says, and that cannot be changed from outside."""

    code = "read_only"
    status = 409
    close_code = 4409


class TooLarge(CourierError):
    """A body, frame or envelope past its bound."""

    code = "too_large"
    status = 413
    close_code = 1009


class OverQuota(CourierError):
    """A token bucket or a stream's depth is used up for now."""

    code = "over_quota"
    status = 429
    retryable = True
    close_code = 4429


class Saturated(CourierError):
    """The ingest queue is full, because the writer is behind; or as many connections are open as may be."""

    code = "saturated"
    status = 503
    retryable = True
    close_code = 1013


class Draining(CourierError):
    """The broker is shutting down and takes nothing new."""

    code = "draining"
    status = 503
    retryable = True
    close_code = 1001


class StorageUnavailable(CourierError):
    """The journal cannot commit just now (locked, or a passing I/O error)."""

    code = "storage_unavailable"
    status = 503
    retryable = True
    close_code = 1013


class StorageFailed(StorageUnavailable):
    """The journal failed in a way after which no commit can be believed: the process stops."""

    code = "storage_failed"
    close_code = 1011


class EffectFailed(StorageUnavailable):
    """An effect of the event failed, so the event was not stored; it may be sent again."""

    code = "effect_failed"


class IngestionUnavailable(StorageUnavailable):
    """What keeps the broker from taking an event just now, in the word of the Pixel contract."""

    code = "ingestion_unavailable"


class DiskFull(CourierError):
    """No room to commit; reads go on, and writes recover by themselves when there is room."""

    code = "disk_full"
    status = 507
    retryable = True
    close_code = 1013

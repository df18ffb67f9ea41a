"""Everything that the edge refuses, as one tree.

    EdgeError                     code                 status  retry
    ├─ SettingsInvalid            settings_invalid        —      no
    ├─ RequestInvalid             invalid_request        400     no
    │  └─ EventInvalid            invalid_event          400     no
    ├─ Forbidden                  forbidden              403     no
    ├─ OutboxUnusable             outbox_unusable         —      no
    │  ├─ OutboxDamaged           outbox_damaged          —      no
    │  └─ OutboxInUse             outbox_in_use           —      no
    ├─ OutboxFull                 outbox_full            507    yes
    └─ OutboxUnavailable          outbox_unavailable     503    yes
       ├─ DiskFull                disk_full              507    yes
       ├─ OutboxClosed            outbox_closed          503    yes
       └─ OutboxFailed            outbox_failed          503    yes

After `OutboxUnavailable` or one below it, whoever called `put` knows nothing: put the event again with the same
`event_id`. After any other one, the event is not in the outbox.
"""

from typing import Any, ClassVar


class EdgeError(Exception):
    """Base of every refusal; `message` says what was wrong, and what to do."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def as_dict(self) -> dict[str, Any]:
        """The error shape of the intake, which is the broker's, without its outer `error` key."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "retry_after_seconds": int(self.retryable),
        }


class SettingsInvalid(EdgeError):
    """A setting is missing, unknown or out of bounds."""

    code = "settings_invalid"


class RequestInvalid(EdgeError):
    """A request to the intake does not have the shape that it asks for."""

    code = "invalid_request"
    status = 400


class EventInvalid(RequestInvalid):
    """The event lacks a field, or a field has the wrong type or is out of bounds."""

    code = "invalid_event"


class Forbidden(EdgeError):
    """A request to the intake came from a web page, or for another host."""

    code = "forbidden"
    status = 403


class OutboxUnusable(EdgeError):
    """The file cannot be used as an outbox: damaged, of another program, or of a newer version."""

    code = "outbox_unusable"


class OutboxDamaged(OutboxUnusable):
    """The file is damaged, or no database at all."""

    code = "outbox_damaged"


class OutboxInUse(OutboxUnusable):
    """Another process has this outbox open."""

    code = "outbox_in_use"


class OutboxFull(EdgeError):
    """The outbox has as many rows or bytes as it may have, and nothing may be dropped for the event."""

    code = "outbox_full"
    status = 507
    retryable = True


class OutboxUnavailable(EdgeError):
    """The outbox cannot be written just now."""

    code = "outbox_unavailable"
    status = 503
    retryable = True


class DiskFull(OutboxUnavailable):
    """No room on the disk; it recovers by itself when there is."""

    code = "disk_full"
    status = 507


class OutboxClosed(OutboxUnavailable):
    """The outbox is closed, or was closed before the event was on disk."""

    code = "outbox_closed"


class OutboxFailed(OutboxUnavailable):
    """The file failed in a way after which no commit can be believed: open it anew."""

    code = "outbox_failed"

"""What a server says about the events that it was sent.

Only an object with the `event_id` of an event and the status `stored` is an acknowledgement. Whatever cannot be read as
an answer ends the line, and everything unanswered is sent again: a captive portal's page must not cost an event.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from edge.limits import ERROR_TEXT_BYTES_MAX, RETRY_AFTER_SECONDS_MAX


class Stored(NamedTuple):
    """The event with this id is on the server's disk."""

    event_id: str


class Refused(NamedTuple):
    """An event was not stored. Without an id, it is one of those that are unanswered."""

    event_id: str | None
    reason: str
    retryable: bool
    retry_after_seconds: float


class Window(NamedTuple):
    """How many events may be unanswered."""

    events: int


Answer = Stored | Refused | Window


class LineLost(Exception):
    """The connection is of no more use. `retry_after_seconds` is what the server asked for.

    `ambiguous`: it was one of the events on it, but it is not known which.
    """

    def __init__(self, reason: str, retry_after_seconds: float = 0.0, *, ambiguous: bool = False) -> None:
        super().__init__(shortened(reason))
        self.reason = shortened(reason)
        self.retry_after_seconds = retry_after_seconds
        self.ambiguous = ambiguous


def shortened(text: str) -> str:
    """One line of a size that may be kept with a row."""
    return " ".join(text.split()).encode(errors="replace")[:ERROR_TEXT_BYTES_MAX].decode(errors="ignore")


def seconds(value: object) -> float:
    """A server's wish for patience, within reason."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0.0
    return float(min(value, RETRY_AFTER_SECONDS_MAX))


def read(content: bytes | str) -> list[Answer]:
    """The answers in a frame or a body; raise LineLost when it is none of the server's."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        beginning = content[:60] if isinstance(content, str) else content[:60].decode(errors="replace")
        raise LineLost(f"what answers there is no broker: it says {beginning!r}") from None
    return list(_answers(found))


def _answers(found: Any) -> Iterator[Answer]:
    for each in found if isinstance(found, list) else [found]:
        match each:
            case {"event_id": str(event_id), "status": "stored"}:
                yield Stored(event_id)
            case {"error": dict(error), "status": "rejected" | "error"}:
                event_id = each.get("event_id")
                yield refusal(event_id if isinstance(event_id, str) else None, error)
            case {"error": dict(error)} if isinstance(each.get("event_id"), str):
                yield refusal(each["event_id"], error)
            case {"error": dict(error)}:
                about_the_line = refusal(None, error)
                raise LineLost(about_the_line.reason, about_the_line.retry_after_seconds)
            case {"window": int(events)} if not isinstance(events, bool) and events > 0:
                yield Window(events)
            case _:
                raise LineLost(f"the server says what is no answer: {str(each)[:60]!r}")


def refusal(event_id: str | None, error: dict[str, Any]) -> Refused:
    """A refusal in the one error shape of the broker. One that does not say that a retry helps is for good."""
    reason = shortened(f"{error.get('code', 'refused')}: {error.get('message', '')}")
    return Refused(event_id, reason, error.get("retryable") is True, seconds(error.get("retry_after_seconds")))

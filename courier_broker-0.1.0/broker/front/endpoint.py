"""What is said of one endpoint."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX


class Parameter(NamedTuple):
    """A part of the path or of the query."""

    name: str
    place: str
    """`path` or `query`."""
    schema: dict[str, Any]
    meaning: str
    example: Any = None
    is_required: bool = True
    """Of a socket: whether it must be given. For requests, a query with a default says so in its schema."""


@dataclass(frozen=True)
class Many:
    """An array whose elements are each one of some types."""

    of: tuple[Any, ...]


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    name: str
    summary: str
    scope: str | None = None
    """Which scope a token needs; None if any token will do."""
    needs_token: bool = True
    parameters: tuple[Parameter, ...] = ()
    bodies: dict[str, Any] = field(default_factory=dict)
    """What may be sent, by content type; a tuple for one of several; of NDJSON, one line."""
    answers: dict[str, Any] = field(default_factory=dict)
    """What is answered with 200, by content type; a tuple for one of several; of NDJSON, what one line may be."""
    example: Any = None
    """A body of the first content type."""
    not_ready: type[Any] | None = None
    """What is answered with 503, if that is not an error."""

    @property
    def is_socket(self) -> bool:
        """Whether it becomes a WebSocket."""
        return not self.answers


def text(name: str, meaning: str) -> Parameter:
    """A text in the query."""
    return Parameter(name, "query", {"type": "string", "minLength": 1}, meaning)


def in_path(name: str, meaning: str, example: str, **more: Any) -> Parameter:
    """A part of the path."""
    schema = {"type": "string", "minLength": 1, **more}
    return Parameter(name, "path", schema, f"{meaning}; every / in it is written as %2F", example)


def integer(name: str, meaning: str, low: int, high: int, default: int) -> Parameter:
    """A whole number in the query."""
    schema = {"type": "integer", "minimum": low, "maximum": high, "default": default}
    return Parameter(name, "query", schema, meaning)


LIMIT = integer("limit", "how many at most", 1, PAGE_LIMIT_MAX, PAGE_LIMIT_DEFAULT)
"""How long a page is."""

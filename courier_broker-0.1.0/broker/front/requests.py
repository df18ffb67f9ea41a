"""What a request says, checked: its content type, its query, its JSON body, the numbers in its path."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from broker.contracts.json_bytes import check_depth, check_utf8
from broker.contracts.names import stream_name_problem
from broker.errors import InvalidRequest, NotFound, UnsupportedContentType
from broker.limits import SEQ_MAX

T = TypeVar("T")

JSON = "application/json"
NDJSON = "application/x-ndjson"
_ENCODINGS = frozenset({"identity", "gzip", "deflate"})
"""The content encodings that aiohttp undoes without another package."""
TEXT = "text/plain"


def check_content_type(request: web.Request, *allowed: str) -> None:
    """Raise UnsupportedContentType unless the body is declared as JSON, which a form on a web page cannot do."""
    if request.content_type not in allowed:
        kinds = " or ".join(f"'Content-Type: {kind}'" for kind in allowed)
        raise UnsupportedContentType(f"the content type is {request.content_type!r}; send JSON as {kinds}")
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() not in _ENCODINGS:
        raise UnsupportedContentType(
            f"the content encoding is {encoding!r}; send the body as it is, or with gzip or deflate"
        )


def check_not_packed(request: web.Request) -> None:
    """Raise UnsupportedContentType for a body that is compressed: what is stored is what was sent."""
    packed = request.headers.get("Content-Encoding", "identity")
    if packed.strip().lower() != "identity":
        raise UnsupportedContentType(f"the body is encoded as {packed[:40]!r}; send it uncompressed")


async def json_body(request: web.Request, kind: type[T]) -> T:
    """The body as a struct; raise InvalidRequest for one that does not have its shape."""
    check_content_type(request, JSON)
    body = await request.read()
    check_utf8(body)
    check_depth(body)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"the body: {error}") from None


class Query:
    """The query of a request. One that asks for something unknown is refused: a misspelt filter selects all."""

    def __init__(self, request: web.Request, *known: str) -> None:
        self._values: Mapping[str, str] = request.query
        for name in self._values:
            if len(request.query.getall(name)) > 1:
                raise InvalidRequest(f"the query {name!r} is given more than once; say it once")
            if name not in known:
                raise InvalidRequest(f"{request.path} knows no query {name!r}; it knows {', '.join(known)}")

    def text(self, name: str) -> str | None:
        """A text, if it is given."""
        return self._values.get(name)

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number between two bounds."""
        text = self._values.get(name)
        if text is None:
            return default
        number = whole_number(text)
        if number is None or not low <= number <= high:
            raise InvalidRequest(f"{name} must be a whole number from {low} to {high}, not {text[:40]!r}")
        return number


def stream_in_path(request: web.Request) -> str:
    """The stream that the path names; raise InvalidRequest for what cannot be a name."""
    name = request.match_info["stream"]
    if (problem := stream_name_problem(name)) is not None:
        raise InvalidRequest(f"stream: {problem}")
    return name


def seq_in_path(request: web.Request) -> int:
    """The sequence that the path names; raise NotFound for what cannot be one."""
    text = request.match_info["seq"]
    number = whole_number(text)
    if number is None or not 1 <= number <= SEQ_MAX:
        raise NotFound(f"{text[:40]!r} is not a sequence; sequences are whole numbers from 1")
    return number


def whole_number(text: str) -> int | None:
    """The number that a text is, of at most 19 digits: more would not fit the ledger, and take long to read."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None

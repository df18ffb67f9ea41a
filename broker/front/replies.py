"""Answers as bytes: the one place where an error becomes a status, a body or a frame."""

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson
from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE

from broker.errors import CourierError, Draining, RequestTimeout

REFUSALS: Counter[str] = Counter()
"""How often each error was sent by this process, by its code. Counted here, because all of them pass here;
a contract with words of its own for its refusals counts them itself."""


def json_response(body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON answer."""
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json", headers=headers)


def error_response(error: CourierError, beside: Mapping[str, Any] = MappingProxyType({})) -> web.Response:
    """`{"error": {…}}` with the status of the error, and `Retry-After` when a retry can help.

    A contract may have fields of its own `beside` it.
    """
    REFUSALS[error.code] += 1
    headers = {"Retry-After": str(error.retry_after_seconds)} if error.retryable else None
    answer = json_response({**beside, "error": error.as_dict()}, error.status, headers)
    if isinstance(error, Draining | RequestTimeout):
        answer.force_close()  # else a busy client would keep its connection, and the broker, alive
    return answer


def head_behind_length() -> bytes:
    """What stands in an answer of now between the length of its body and the body."""
    return f"\r\nDate: {rfc822_formatted_time()}\r\nServer: {SERVER_SOFTWARE}\r\n\r\n".encode()


def answer_bytes(answer: web.Response) -> bytes:
    """What aiohttp writes for an answer with a body, on a connection that stays open."""
    body = answer.body
    assert isinstance(body, bytes), "an answer that is written whole is bytes"
    headers = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    head = f"HTTP/1.1 {answer.status} {answer.reason}\r\n{headers}Content-Length: {len(body)}"
    return head.encode() + head_behind_length() + body


def whole_answer(error: CourierError) -> bytes:
    """The same error as the bytes of a whole HTTP answer, for who got no further than connecting."""
    REFUSALS[error.code] += 1
    body = orjson.dumps({"error": error.as_dict()})
    retry = f"Retry-After: {error.retry_after_seconds}\r\n" if error.retryable else ""
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{retry}Connection: close\r\n\r\n"
    )
    return head.encode() + body


def error_frame(error: CourierError, **detail: Any) -> bytes:
    """The same error as a WebSocket frame, with what else there is to say."""
    REFUSALS[error.code] += 1
    return orjson.dumps({"error": error.as_dict() | detail})

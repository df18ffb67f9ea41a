"""Two ways to a server, behind one shape: a WebSocket that is pipelined, and posts over HTTP.

Each line is made anew: its session, its name lookup and its TLS handshake. A broker that moved to another address is
found, and nothing of a line that went wrong is used again. Redirects are not followed: they are what captive portals
answer with.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import orjson

from edge.answers import Answer, LineLost, Refused, Stored, Window, read, refusal, seconds
from edge.errors import SettingsInvalid
from edge.limits import (
    ANSWER_BYTES_MAX,
    ANSWER_SECONDS_DEFAULT,
    CONNECT_SECONDS_DEFAULT,
    FRAME_ROWS_MAX,
    PING_SECONDS_DEFAULT,
    TIMEOUT_SECONDS_MAX,
)
from edge.store import Row

INGRESS_PATH = "/v1/ingress"
EVENTS_PATH = "/v1/events"
PLUGIN_PATH = "/plugin/events"
_PLUGIN_ATTEMPTS = 1_000_000
"""`max_attempts` of the plugin's contract: an outbox never gives up."""
_JSON = {"Content-Type": "application/json"}
_ABOUT_THE_EVENT = frozenset({400, 413, 415, 422})
"""Statuses that speak of what was sent. All others speak of the server, of the way to it, or of the token."""


class Line(Protocol):
    """A connection on which rows go out and answers come back."""

    async def open(self) -> int:
        """Connect; how many events may be unanswered. Raise LineLost."""

    async def send(self, rows: Sequence[Row]) -> None:
        """Send rows. Raise LineLost."""

    async def receive(self) -> list[Answer]:
        """Wait for answers. Raise LineLost."""

    async def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is, and how to prove who both are. `http` and `https` post; `ws` and `wss` keep a socket."""

    url: str
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    connect_seconds: float = CONNECT_SECONDS_DEFAULT
    answer_seconds: float = ANSWER_SECONDS_DEFAULT
    ping_seconds: float = PING_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            fits = parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits or parts.query or parts.fragment or parts.username:
            raise SettingsInvalid(f"{self.url!r} is not a URL like ws://192.168.1.10:8787 or https://broker.example")
        for name in ("connect_seconds", "answer_seconds", "ping_seconds"):
            if not 0 < getattr(self, name) <= TIMEOUT_SECONDS_MAX:
                raise SettingsInvalid(
                    f"{name} is {getattr(self, name)}; more than 0, at most {TIMEOUT_SECONDS_MAX:.0f}"
                )

    @property
    def posts(self) -> bool:
        """Whether events are posted, and no socket is kept."""
        return self.url.startswith("http")

    @property
    def address(self) -> str:
        """The URL with the path of the endpoint, if it has none."""
        path = urlsplit(self.url).path
        return self.url.rstrip("/") + (EVENTS_PATH if self.posts else INGRESS_PATH) if path in ("", "/") else self.url

    @property
    def contract(self) -> str:
        """What the server takes: `skyra`, the events of devices, or `pixel`, those of plugins."""
        return "pixel" if self.posts and urlsplit(self.url).path.endswith(PLUGIN_PATH) else "skyra"

    def line(self) -> Line:
        """A new line to it."""
        if self.contract == "pixel":
            return PluginLine(self)
        return PostLine(self) if self.posts else SocketLine(self)

    def session(self) -> aiohttp.ClientSession:
        """A session that shares nothing with an earlier one."""
        connector = aiohttp.TCPConnector(ssl=self._ssl(), use_dns_cache=False, limit=1)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.connect_seconds)
        return aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout, middlewares=(_refuse_redirects,)
        )

    def _ssl(self) -> ssl.SSLContext | bool:
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise LineLost(f"{self.ca_file}: no certificates can be read from it: {error}") from error


async def _refuse_redirects(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A WebSocket cannot be told not to follow them."""
    response = await handler(request)
    if 300 <= response.status < 400:
        response.close()
        raise LineLost(f"the server answers {response.status} and points elsewhere: is there a login page on the way?")
    return response


class SocketLine:
    """`WS /v1/ingress`: frames of one event or many, pipelined; a ping finds out whether the other side is there."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def open(self) -> int:
        """Connect, and wait for the window."""
        target = self._target
        self._session = target.session()
        try:
            self._socket = await self._session.ws_connect(
                target.address,
                heartbeat=target.ping_seconds,
                max_msg_size=ANSWER_BYTES_MAX,
                timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
            )
        except aiohttp.WSServerHandshakeError as error:
            retry_after = _header_seconds(error.headers.get("Retry-After") if error.headers else None)
            raise LineLost(f"the server answers {error.status} and opens no WebSocket", retry_after) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise LineLost(f"no connection: {error}") from error
        for answer in await self.receive():
            if isinstance(answer, Window):
                return answer.events
        raise LineLost("the server did not begin with its window")

    async def send(self, rows: Sequence[Row]) -> None:
        """Send rows in one frame."""
        assert self._socket is not None
        try:
            await self._socket.send_frame(_together(rows), aiohttp.WSMsgType.TEXT)
        except (aiohttp.ClientError, OSError) as error:
            raise LineLost(f"the line was cut: {error}") from error

    async def receive(self) -> list[Answer]:
        """The answers of the next frame."""
        assert self._socket is not None
        message = await self._socket.receive()
        if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            return read(message.data)
        code = self._socket.close_code
        said = f" ({message.extra})" if message.extra else ""
        raise LineLost(f"the server closed the line with {code}{said}" if code else f"the line was cut: {message.data}")

    async def close(self) -> None:
        """Close what is open."""
        if self._socket is not None:
            await self._socket.close()
        if self._session is not None:
            await self._session.close()


class PostLine:
    """`POST /v1/events`: a batch a request; its answer is the answer to all of them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._session: aiohttp.ClientSession | None = None
        self._answers: asyncio.Queue[list[Answer]] = asyncio.Queue()

    async def open(self) -> int:
        """Nothing is sent yet: whether somebody is there shows with the first batch."""
        self._session = self._target.session()
        return FRAME_ROWS_MAX

    async def send(self, rows: Sequence[Row]) -> None:
        """Post rows, and keep the answers for `receive`."""
        await self._post(_together(rows), rows[0].event_id if len(rows) == 1 else None)

    async def _post(self, body: bytes, event_id: str | None) -> None:
        """Post a body, which is one event's alone if that is named."""
        assert self._session is not None
        timeout = aiohttp.ClientTimeout(total=self._target.answer_seconds, sock_connect=self._target.connect_seconds)
        try:
            async with self._session.post(
                self._target.address, data=body, headers=_JSON, allow_redirects=False, timeout=timeout
            ) as response:
                self._answers.put_nowait(self._read(response, await _content(response), event_id))
        except TimeoutError as error:
            raise LineLost(f"no answer within {self._target.answer_seconds} seconds") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise LineLost(f"no connection: {error}") from error

    def _read(self, response: aiohttp.ClientResponse, content: bytes, event_id: str | None) -> list[Answer]:
        return _posted(response, content, event_id)

    async def receive(self) -> list[Answer]:
        """The answers of the next batch that was posted."""
        return await self._answers.get()

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()


class PluginLine(PostLine):
    """`POST /plugin/events` (001): an event a request, in that contract's wrapper, told by its `idempotency_key`."""

    async def open(self) -> int:
        """One event at a time: the answer to a refused one does not name it."""
        await super().open()
        return 1

    async def send(self, rows: Sequence[Row]) -> None:
        """Post a row."""
        (row,) = rows
        transport = {
            "attempt": row.attempt_count + 1,
            "max_attempts": _PLUGIN_ATTEMPTS,
            "retry_backoff_ms": 0,
            "auth_mode": "bearer" if self._target.token else "none",
        }
        body = b'{"envelope":%b,"transport":%b}' % (row.payload_json, orjson.dumps(transport))
        await self._post(body, row.event_id)

    def _read(self, response: aiohttp.ClientResponse, content: bytes, event_id: str | None) -> list[Answer]:
        """An `ack` that is accepted must name the key; one that is rejected is about the one event that was posted."""
        try:
            ack = orjson.loads(content)["ack"] if 200 <= response.status < 300 else None
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise LineLost(f"what answers there is no broker: it says {content[:60]!r}") from None
        match ack:
            case None:
                return _posted(response, content, event_id)
            case {"status": "accepted", "idempotency_key": key} if key == event_id:
                return [Stored(key)]
            case {"status": "rejected"}:
                return [refusal(event_id, ack)]
        raise LineLost(f"the server says what is no answer: {str(ack)[:60]!r}")


def _together(rows: Sequence[Row]) -> bytes:
    """One event as it is, several as an array."""
    return rows[0].payload_json if len(rows) == 1 else b"[%b]" % b",".join(row.payload_json for row in rows)


async def _content(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > ANSWER_BYTES_MAX:
            raise LineLost(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return bytes(content)


def _posted(response: aiohttp.ClientResponse, content: bytes, event_id: str | None) -> list[Answer]:
    """What a response says. One that is not JSON says nothing about an event, whatever its status."""
    retry_after = _header_seconds(response.headers.get("Retry-After"))
    if 200 <= response.status < 300:
        return read(content)
    reason = f"the server answers {response.status}"
    try:
        error = orjson.loads(content)["error"]
        reason = f"{reason}: {error['code']}: {error['message']}"
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise LineLost(reason, retry_after) from None
    if response.status in _ABOUT_THE_EVENT and error.get("retryable") is not True:
        return [Refused(event_id, reason, retryable=False, retry_after_seconds=0.0)]
    raise LineLost(reason, max(retry_after, seconds(error.get("retry_after_seconds"))))


def _header_seconds(value: str | None) -> float:
    try:
        return seconds(float(value)) if value is not None else 0.0
    except ValueError:
        return 0.0  # a date: a clock that may be wrong is not asked for it

"""Connections: how many may be open, and how long a client may take to send a request.

aiohttp has a bound for neither, so its connection is extended here. A connection past the bound is answered as
soon as it says something (a client that is answered before it has spoken may take that for a fault) and held
open for a moment, because closing it with unread bytes would make the kernel take the answer back. A client
has `server.readTimeoutMs` for one request, from its first byte to the last of its body; the time in which the
broker itself does not read does not count, nor does the pause between two requests, nor a WebSocket.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from broker.config import Server as ServerConfig
from broker.errors import InvalidRequest, RequestTimeout, Saturated
from broker.front.replies import error_response, whole_answer
from broker.limits import CONNECTIONS_REFUSED_AT_ONCE_MAX

LINGER_SECONDS: Final = 1.0
"""How long a refused connection may stay to take its answer."""


class BodyTooSlow(TimeoutError):
    """The body of a request did not arrive in time. Not a CourierError: aiohttp passes over time-outs of a body."""


class BodyUnreadable(TimeoutError):
    """The body of a request cannot be unpacked. A time-out for the same reason: aiohttp reads on, and logs others."""


class Connections:
    """Counts the connections of a server, and makes new ones: the protocol factory of its listening socket."""

    def __init__(self, config: ServerConfig) -> None:
        self.read_timeout_seconds: Final = config.read_timeout_ms / 1000
        self._connections_max = config.max_connections
        self.open = 0
        self.refused_total = 0
        self._refused: set[Refused] = set()
        self._server: web.Server | None = None
        self._options: dict[str, Any] = {}
        self._make: Callable[..., Connection] = Connection

    def serve(self, server: web.Server, options: dict[str, Any], make: "Callable[..., Connection]") -> None:
        """Say for whom connections are made, and what they are."""
        self._server, self._options, self._make = server, options, make

    def __call__(self) -> asyncio.Protocol:
        """What serves a connection that was just accepted."""
        assert self._server is not None
        return self._make(self, self._server, loop=asyncio.get_running_loop(), **self._options)

    def refusal(self) -> "Refused | None":
        """What serves a connection instead, when as many are open as may be."""
        if self.open < self._connections_max:
            return None
        self.refused_total += 1
        return Refused(self._refused, self._connections_max)

    def abort_refused(self) -> None:
        """Hold none of the refused any longer."""
        for refused in tuple(self._refused):
            refused.abort()


class Refused(asyncio.Protocol):
    """A connection past the bound: answered, and closed."""

    def __init__(self, others: set["Refused"], connections_max: int) -> None:
        self._others = others
        self._connections_max = connections_max
        self._transport: asyncio.Transport | None = None
        self._end: asyncio.TimerHandle | None = None
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first byte, unless too many wait already."""
        self._transport = cast(asyncio.Transport, transport)
        if len(self._others) >= CONNECTIONS_REFUSED_AT_ONCE_MAX:
            self._transport.abort()
            return
        self._others.add(self)
        self._end = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.abort)

    def data_received(self, _data: bytes) -> None:
        """Answer once, and read on until the client hangs up."""
        if self._answered or self._transport is None:
            return
        self._answered = True
        text = f"{self._connections_max} connections are open already (server.maxConnections); try again later"
        self._transport.write(whole_answer(Saturated(text)))
        self._transport.write_eof()

    def connection_lost(self, _error: Exception | None) -> None:
        """Be gone."""
        self._others.discard(self)
        if self._end is not None:
            self._end.cancel()

    def abort(self) -> None:
        """Cut the line."""
        if self._transport is not None:
            self._transport.abort()


class Connection(RequestHandler):
    """A connection that is counted, and whose requests must arrive in time."""

    __slots__ = ("_connections", "_deadline", "_in_head")

    def __init__(self, connections: Connections, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._connections = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = False
        """Whether some of a request has come, but not all of its head."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be counted, or leave the connection to its refusal."""
        refusal = self._connections.refusal()
        if refusal is None:
            self._connections.open += 1
            super().connection_made(transport)
        else:
            transport.set_protocol(refusal)
            refusal.connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Be counted no more."""
        if self._manager is not None:
            self._connections.open -= 1
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and note whether a request is now under way that has not arrived in full."""
        super().data_received(data)
        if self._payload_parser is not None or self._upgraded:  # a WebSocket
            self._stop_timer()
            return
        if self._messages:
            self._in_head = False
            is_whole = self._messages[-1][1].is_eof()
        elif self._current_request is not None:
            is_whole = self._current_request.content.is_eof()
        elif self._waiter is not None:
            self._in_head = self._in_head or data.strip(b"\r\n") != b""  # blank lines before a request are nothing
            is_whole = not self._in_head
        else:  # on its way from the one to the other: nothing can be told, and the timer stays as it is
            return
        if is_whole:
            self._stop_timer()
        elif self._deadline is None:
            self._start_timer()

    @property
    def frames_came_early(self) -> bool:
        """Whether a client has sent frames before its handshake was answered."""
        return bool(self._message_tail)

    def replace_parser(self, parser: Any) -> None:
        """Give what is read of a WebSocket to this parser."""
        self._payload_parser = parser

    def hold_frames(self) -> None:
        """Read nothing more for now."""
        if self.transport is not None:
            self.transport.pause_reading()

    def read_frames(self) -> None:
        """Read on, unless aiohttp does not want to: its queue of messages has a bound of its own."""
        if self.transport is not None and not self.transport.is_closing() and not self._reading_paused:
            self.transport.resume_reading()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP in the one error shape, and do not log it: any stranger could fill the log."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        answer = error_response(InvalidRequest(f"this is not valid HTTP: {' '.join((message or '').split())}"))
        answer.force_close()
        return answer

    def _start_timer(self) -> None:
        self._deadline = self._loop.call_later(self._connections.read_timeout_seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        request = self._current_request
        if self._reading_paused or self._buffer_paused:  # it is the broker that does not read
            self._start_timer()
        elif request is not None and not request.content.is_eof():
            request.content.set_exception(BodyTooSlow())
        elif self._messages or (request is None and self._waiter is None):  # not yet at what is late
            self._start_timer()
        elif request is None and self._in_head and self.transport is not None:
            self.transport.write(whole_answer(too_slow()))
            self.force_close()


def too_slow() -> RequestTimeout:
    """The answer to a request that does not arrive."""
    return RequestTimeout("the request did not arrive in full within server.readTimeoutMs; send it again, faster")

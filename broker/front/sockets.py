"""The WebSockets that are open on one endpoint, and their orderly end."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web

from broker.admission.auth import Principal
from broker.errors import CourierError, Draining, InvalidRequest
from broker.front.frames import TextSocket
from broker.front.guard import PRINCIPAL
from broker.front.replies import error_frame
from broker.limits import FRAME_BYTES_MAX

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 20.0
"""How often a silent peer is pinged; one that does not answer is gone."""

GOODBYE_SECONDS: Final = 1.0
"""How long a peer may take to answer the closing of its socket before the line is cut."""


CLOSE_REASON_BYTES_MAX: Final = 123
"""How long the reason in a close frame may be, by RFC 6455."""

Objection = Callable[[Principal], CourierError | None]
"""Why a caller that was let in may not stay; None when it may."""

_TRANSPORT: web.ResponseKey[asyncio.WriteTransport] = web.ResponseKey("transport", asyncio.WriteTransport)


async def refuse(socket: web.WebSocketResponse, error: CourierError) -> None:
    """Say what is wrong in an error frame, and close with the code of the error; take no more of what it sent."""
    if isinstance(socket, TextSocket):
        socket.end_texts()
    reason = error.message.encode()[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore")
    await _part(socket, error.close_code, reason, error_frame(error))


async def _part(socket: web.WebSocketResponse, code: int, reason: str, last_frame: bytes | None = None) -> None:
    """Close; a peer that does not take that in is cut off."""
    cut = asyncio.get_running_loop().call_later(GOODBYE_SECONDS, socket[_TRANSPORT].abort)
    try:
        if last_frame is not None:
            with contextlib.suppress(ConnectionError):
                await socket.send_frame(last_frame, WSMsgType.TEXT)
        await socket.close(code=code, message=reason.encode())
    finally:
        cut.cancel()


def check_handshake(request: web.Request) -> None:
    """Raise InvalidRequest for a request that cannot become a WebSocket, before it has changed anything.

    Any web page can make a browser send a plain GET, and without an Origin.
    """
    if not web.WebSocketResponse().can_prepare(request):
        raise InvalidRequest(f"{request.path} is a WebSocket; connect with a client that speaks it")


class OpenSockets:
    """Opens sockets until it is closed; then tells every one that the broker goes away."""

    def __init__(self) -> None:
        self._open: dict[web.WebSocketResponse, Principal] = {}
        self._objection: Objection = lambda _principal: None
        self._closing = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def check(self) -> None:
        """Raise Draining when nobody is let in any more."""
        if self._closing:
            raise Draining("the broker is shutting down; connect to its successor")

    @asynccontextmanager
    async def accept(self, request: web.Request) -> AsyncIterator[TextSocket]:
        """Turn a request into a socket, which counts as open until the block ends."""
        socket = TextSocket(text_bytes_max=FRAME_BYTES_MAX, heartbeat=HEARTBEAT_SECONDS, compress=False)
        await socket.prepare(request)
        if request.transport is not None:
            socket[_TRANSPORT] = request.transport
            self._open[socket] = request[PRINCIPAL]
            if (error := self._objection(request[PRINCIPAL])) is not None:  # revoked while the socket was made
                await refuse(socket, error)
        try:
            yield socket
        except (ConnectionError, CourierError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            await refuse(socket, CourierError("the broker met an error of its own; its log has the details"))
        finally:
            self._open.pop(socket, None)

    async def revoke(self, objection: Objection) -> int:
        """Refuse every socket to whose caller there is an objection; how many those were."""
        self._objection = objection
        refused = [
            refuse(socket, error)
            for socket, principal in self._open.items()
            if (error := objection(principal)) is not None
        ]
        await asyncio.gather(*refused)
        return len(refused)

    async def close(self) -> None:
        """Close every socket with 1001; let nobody in any more."""
        self._closing = True
        reason = "the broker is shutting down"
        await asyncio.gather(*(_part(socket, WSCloseCode.GOING_AWAY, reason) for socket in tuple(self._open)))

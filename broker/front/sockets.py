"""The WebSockets that are open on one endpoint, and their orderly end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import WSCloseCode, web

from broker.errors import Draining
from broker.limits import FRAME_BYTES_MAX

HEARTBEAT_SECONDS: Final = 20.0
"""How often a silent peer is pinged; one that does not answer is gone."""

GOODBYE_SECONDS: Final = 1.0
"""How long a peer may take to answer the closing of its socket before the line is cut."""


class OpenSockets:
    """Opens sockets until it is closed; then tells every one that the broker goes away."""

    def __init__(self) -> None:
        self._open: dict[web.WebSocketResponse, asyncio.WriteTransport] = {}
        self._closing = False

    def check(self) -> None:
        """Raise Draining when nobody is let in any more."""
        if self._closing:
            raise Draining("the broker is shutting down; connect to its successor")

    @asynccontextmanager
    async def accept(self, request: web.Request) -> AsyncIterator[web.WebSocketResponse]:
        """Turn a request into a socket, which counts as open until the block ends."""
        frame_bytes_end = FRAME_BYTES_MAX + 1  # aiohttp refuses from here on
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS, max_msg_size=frame_bytes_end, compress=False)
        await socket.prepare(request)
        if request.transport is not None:
            self._open[socket] = request.transport
        try:
            yield socket
        finally:
            self._open.pop(socket, None)

    async def close(self) -> None:
        """Close every socket with 1001; let nobody in any more."""
        self._closing = True
        await asyncio.gather(*(self._part(*each) for each in tuple(self._open.items())))

    async def _part(self, socket: web.WebSocketResponse, transport: asyncio.WriteTransport) -> None:
        cut = asyncio.get_running_loop().call_later(GOODBYE_SECONDS, transport.abort)
        try:
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the broker is shutting down")
        finally:
            cut.cancel()

"""The way out of one WebSocket: whole frames in one write, and how much of the last write is still here.

The transport's high-water mark is set to zero. So a write goes to the kernel at once, and the next one waits
until all of it is there: nothing gathers in the transport but the rest of one write.
"""

import asyncio
import sys

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from broker.limits import STALLED_READER_MS_MAX


class Line:
    """Writes frames to one socket, at the speed of its reader."""

    def __init__(
        self, socket: web.WebSocketResponse, transport: asyncio.WriteTransport, writer: AbstractStreamWriter
    ) -> None:
        self._socket = socket
        self._transport = transport
        self._writer = writer
        self._lost_bytes = 0
        transport.set_write_buffer_limits(high=0)

    @classmethod
    async def of(cls, socket: web.WebSocketResponse, request: web.Request) -> "Line":
        """The line of a socket that was accepted."""
        if request.transport is None:
            raise ConnectionResetError("the peer is gone already")
        return cls(socket, request.transport, await socket.prepare(request))

    @property
    def stuck_bytes(self) -> int:
        """How much of the last write is known never to have left; 0 when the kernel had it, or nobody can say."""
        return self._lost_bytes or self._transport.get_write_buffer_size()

    def write_now(self, frames: bytes) -> bool:
        """Hand whole frames to the kernel; whether it has all of them. If not, `left` waits for the rest.

        Raise ConnectionError when the peer is gone.
        """
        if self._socket.closed or self._transport.is_closing():
            self._lost_bytes = len(frames)
            raise ConnectionResetError("the socket is closed")
        self._transport.write(frames)
        return not self.stuck_bytes

    async def left(self) -> None:
        """Return when the kernel has all of the last write.

        Raise ConnectionError when the peer is gone, or has read nothing for so long that it is cut off.
        """
        while stuck_bytes := self.stuck_bytes:
            try:
                async with asyncio.timeout(STALLED_READER_MS_MAX / 1000):
                    # Whoever drains waits for a future that all share; to cancel it would be to cancel the others.
                    await asyncio.shield(self._writer.drain())
            except TimeoutError:
                if self.stuck_bytes >= stuck_bytes:
                    raise ConnectionAbortedError("the peer reads nothing") from None
            if self._transport.is_closing():
                raise ConnectionResetError("the peer went away")

    async def write(self, frames: bytes) -> None:
        """Hand whole frames to the kernel, and return when it has all of them; raise as the two above do."""
        if not self.write_now(frames):
            await self.left()

    def fail(self) -> None:
        """End the connection because what it should have been sent cannot be made; none of that has left."""
        self._lost_bytes = sys.maxsize
        self._transport.abort()

    def cut(self) -> None:
        """End the connection without waiting for what is stuck; one without anything stuck ends by itself."""
        if stuck_bytes := self._transport.get_write_buffer_size():
            self._lost_bytes = self._lost_bytes or stuck_bytes
            self._transport.abort()

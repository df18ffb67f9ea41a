"""The way out of one WebSocket: whole frames in one write, and how much of the last write is still here.

The transport's high-water mark is set to zero. So a write goes to the kernel at once, and the next one waits
until all of it is there: nothing gathers in the transport but the rest of one write.
"""

import asyncio
from collections.abc import Sequence

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from broker.deliveries.framing import Framed, text_frame_head
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

    async def write(self, frames: bytes) -> None:
        """Hand whole frames to the kernel, and return when it has all of them.

        Raise ConnectionError when the peer is gone, or has read nothing for so long that it is cut off.
        """
        if self._socket.closed or self._transport.is_closing():
            self._lost_bytes = len(frames)
            raise ConnectionResetError("the socket is closed")
        self._transport.write(frames)
        while stuck_bytes := self.stuck_bytes:
            try:
                async with asyncio.timeout(STALLED_READER_MS_MAX / 1000):
                    await self._writer.drain()
            except TimeoutError:
                if self.stuck_bytes >= stuck_bytes:
                    raise ConnectionAbortedError("the peer reads nothing") from None
            if self._transport.is_closing():
                raise ConnectionResetError("the peer went away")

    async def send(self, frames: Sequence[bytes]) -> None:
        """Hand over texts as whole frames, in one write, among what is framed already."""
        parts: list[bytes] = []
        for frame in frames:
            if not isinstance(frame, Framed):
                parts.append(text_frame_head(len(frame)))
            parts.append(frame)
        await self.write(b"".join(parts))

    def cut(self) -> None:
        """End the connection without waiting for what is stuck; one without anything stuck ends by itself."""
        if stuck_bytes := self._transport.get_write_buffer_size():
            self._lost_bytes = stuck_bytes
            self._transport.abort()

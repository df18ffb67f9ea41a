"""Bytes on a TCP connection, for what no HTTP library would send."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from broker.app import App
from tests.support.events import STREAM

PATIENCE_SECONDS = 20.0


async def exchange(port: int, sent: bytes, *, hang_up: bool = False) -> bytes:
    """Send bytes, and read what comes back until the other side closes; or hang up without reading."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        await writer.drain()
        if hang_up:
            return b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def half_a_request(port: int, body: bytes) -> AsyncIterator[Callable[[], Awaitable[bytes]]]:
    """An enqueue whose body the broker waits for; the function that is handed out sends it, and reads the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def the_rest() -> bytes:
        writer.write(body[10:])
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await reader.read()

    try:
        writer.write(
            b"POST /v1/enqueue HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body[:10])
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        yield the_rest
    finally:
        writer.transport.abort()


@asynccontextmanager
async def websocket(
    app: App, path: str = f"/v1/subscribe?stream={STREAM}"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A WebSocket as a bare connection, after the handshake; a subscriber, unless the path says otherwise."""
    reader, writer = await asyncio.open_connection("127.0.0.1", app.server.port)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        yield reader, writer
    finally:
        writer.transport.abort()


@asynccontextmanager
async def deaf_subscriber(app: App, credit: int) -> AsyncIterator[None]:
    """A subscriber that grants credit, and never reads what comes."""
    async with websocket(app) as (_, writer):
        writer.transport.pause_reading()
        frame = b'{"credit":%d}' % credit
        writer.write(bytes([0x81, 0x80 | len(frame)]) + bytes(4) + frame)  # masked with zeros
        yield

"""Connections of the quick lane: what is sent on them, and which way it went."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker.app import App
from broker.front.quick_connection import QuickConnection
from tests.support.events import body
from tests.support.writer import eventually

PATIENCE_SECONDS = 20.0
HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"


def request(sent: bytes, headers: bytes = HEAD) -> bytes:
    """A plain request with this body."""
    return b"POST /v1/enqueue HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (headers, len(sent), sent)


def enqueue(event_id: str, **fields: object) -> bytes:
    """A plain request for a valid envelope."""
    return request(body(event_id, **fields))


def undated(answer: bytes) -> bytes:
    """An answer without the second in which it was written."""
    return re.sub(rb"\r\nDate: [^\r]+ GMT\r\n", b"\r\nDate: now\r\n", answer)


def slow_requests(app: App) -> int:
    """How many requests aiohttp has handled."""
    server = app.server._runner.server
    assert server is not None
    return server.requests_count


def connections(app: App) -> list[QuickConnection]:
    """The open connections."""
    server = app.server._runner.server
    assert server is not None
    return [each for each in server.connections if isinstance(each, QuickConnection)]


def is_idle(connection: QuickConnection) -> bool:
    """Whether a request would be looked at by the quick lane."""
    return connection._waiter is not None and not connection._quick


async def settled(app: App) -> None:
    """Wait until every connection waits for a request."""
    await eventually(lambda: all(map(is_idle, connections(app))))


class QuickLine:
    """A connection whose host has passed the guard."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, app: App, connection: QuickConnection
    ) -> None:
        self.reader, self.writer, self.app, self.connection = reader, writer, app, connection

    async def answer(self) -> bytes:
        """One answer, whole."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"\r\nContent-Length: (\d+)\r\n", head)
            assert length is not None, head
            return head + await self.reader.readexactly(int(length[1]))

    async def ask(self, *pieces: bytes) -> bytes:
        """Send a request, each piece after the one before it has arrived; the answer, without its date."""
        await eventually(lambda: is_idle(self.connection))
        for piece in pieces[:-1]:
            before = self.connection._owed
            self.writer.write(piece)
            await eventually(lambda before=before: self.connection._owed != before)
        self.writer.write(pieces[-1])
        return undated(await self.answer())

    async def ask_slowly(self, sent: bytes) -> bytes:
        """Send a request in two pieces, so that aiohttp answers it."""
        cut = sent.index(b"\r\n\r\n") + 4
        return await self.ask(sent[:cut], sent[cut:])


@asynccontextmanager
async def quick_line(app: App, host: bytes = b"localhost") -> AsyncIterator[QuickLine]:
    """A connection, after a first request that made its host known."""
    reader, writer = await asyncio.open_connection("127.0.0.1", app.server.port)
    try:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reader.readuntil(b"}")
        here = writer.get_extra_info("sockname")
        (connection,) = [each for each in connections(app) if each.peername == here]
        await eventually(lambda: is_idle(connection))
        yield QuickLine(reader, writer, app, connection)
    finally:
        writer.transport.abort()

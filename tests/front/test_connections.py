"""How many connections may be open, and how long a client may take to send a request."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from broker.app import App
from broker.front import connections
from tests.conftest import Connect, StartApp
from tests.support.client import JSON, Client, assert_error
from tests.support.events import body
from tests.support.raw import PATIENCE_SECONDS, websocket
from tests.support.writer import eventually, held_writer, stored

TIMEOUT_MS = 200
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /v1/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Line:
    """A bare connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, sent: bytes) -> None:
        self.writer.write(sent)

    async def answer(self) -> tuple[int, dict[str, str], dict[str, Any]]:
        """One answer, read whole."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            content = await self.reader.readexactly(int(headers["Content-Length"]))
        return int(head[0].split()[1]), headers, json.loads(content)

    async def end(self) -> bytes:
        """What else comes until the broker closes the connection; nothing if bytes are on their way to it then."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return await self.reader.read()
            except ConnectionResetError:  # how the kernel answers bytes for a connection that is closed
                return b""

    async def drip(self, sent: bytes, pause_ms: int) -> None:
        """Send byte by byte, until the broker has had enough."""
        for byte in sent:
            if self.reader.at_eof() or self.writer.transport.is_closing():
                return
            self.send(bytes([byte]))
            await asyncio.sleep(pause_ms / 1000)


@asynccontextmanager
async def line(app: App) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", app.server.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.transport.abort()


@pytest.fixture
async def narrow(start_app: StartApp) -> App:
    return await start_app({"server": {"maxConnections": 2}})


@pytest.fixture
async def impatient(start_app: StartApp) -> App:
    return await start_app({"server": {"readTimeoutMs": TIMEOUT_MS}})


async def alive(client: Line) -> bool:
    client.send(LIVEZ)
    return (await client.answer())[0] == 200


def open_connections(app: App) -> int:
    return app.server._connections.open


async def test_up_to_the_bound_everybody_is_served_and_one_more_is_told_why_not(narrow: App) -> None:
    async with line(narrow) as one, line(narrow) as two:
        assert await alive(one)
        assert await alive(two)
        async with line(narrow) as three:
            three.send(HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000)
            status, headers, answer = await three.answer()
            assert (status, headers["Retry-After"], headers["Connection"]) == (503, "1", "close")
            error = answer["error"]
            assert (error["code"], error["retryable"]) == ("saturated", True)
            assert error["message"] == "2 connections are open already (server.maxConnections); try again later"
            assert await three.end() == b""
        assert await alive(one)
    await eventually(lambda: open_connections(narrow) == 0)
    async with line(narrow) as four:
        assert await alive(four)


async def test_a_client_past_the_bound_gets_an_answer_that_its_library_understands(
    narrow: App, connect: Connect
) -> None:
    client = await connect(narrow.server.address)
    async with line(narrow) as one, line(narrow) as two:
        assert await alive(one)
        assert await alive(two)
        assert_error(await client.post(body()), 503, "saturated", retryable=True)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.session.ws_connect("v1/publish")
        assert refused.value.status == 503
    assert await stored(narrow) == []


async def test_an_idle_connection_and_a_websocket_count_until_they_are_gone(narrow: App) -> None:
    async with AsyncExitStack() as opened:
        idle = await opened.enter_async_context(line(narrow))
        await eventually(lambda: open_connections(narrow) == 1)
        async with websocket(narrow), line(narrow) as third:
            third.send(LIVEZ)
            assert (await third.answer())[0] == 503
        await eventually(lambda: open_connections(narrow) == 1)
        async with line(narrow) as third:
            assert await alive(third)
        assert await alive(idle)


async def test_a_refused_connection_that_says_nothing_is_cut_and_only_so_many_are_held(
    narrow: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_REFUSED_AT_ONCE_MAX", 1)
    monkeypatch.setattr(connections, "LINGER_SECONDS", 0.3)
    async with line(narrow), line(narrow), line(narrow) as silent:
        await eventually(lambda: len(narrow.server._connections._refused) == 1)
        async with line(narrow) as one_too_many:
            assert await one_too_many.end() == b""
        assert len(narrow.server._connections._refused) == 1
        assert await silent.end() == b""
        assert not narrow.server._connections._refused


async def test_refused_connections_do_not_hold_up_the_end(narrow: App) -> None:
    async with line(narrow), line(narrow), line(narrow):
        await eventually(lambda: len(narrow.server._connections._refused) == 1)
        await narrow.drain()


@pytest.mark.parametrize("sent", [b"G", b"GET /livez HTTP/1.1\r\nHost: loc", LIVEZ[:-1]])
async def test_a_head_that_stops_is_answered_with_408_and_cut(impatient: App, sent: bytes) -> None:
    async with line(impatient) as client:
        client.send(sent)
        status, headers, answer = await client.answer()
        assert (status, headers["Connection"], headers["Retry-After"]) == (408, "close", "1")
        assert answer["error"]["code"] == "request_timeout"
        assert answer["error"]["message"].startswith("the request did not arrive in full within server.readTimeoutMs")
        assert await client.end() == b""
    await eventually(lambda: open_connections(impatient) == 0)


async def test_a_head_that_drips_is_too_slow_though_it_never_stops(impatient: App) -> None:
    async with line(impatient) as client:
        dripping = asyncio.create_task(client.drip(LIVEZ[:4] + b"x" * 10_000, pause_ms=10))
        assert (await client.answer())[0] == 408
        await client.end()
        await dripping


@pytest.mark.parametrize("framing", [b"Content-Length: 100000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n4000\r\n"])
@pytest.mark.parametrize("drips", [False, True])
async def test_a_body_that_does_not_arrive_is_answered_with_408_and_cut(
    impatient: App, framing: bytes, drips: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with line(impatient) as client:
        client.send(HEAD + framing + b'{"to": ')
        dripping = asyncio.create_task(client.drip(b" " * 10_000 if drips else b"", pause_ms=10))
        status, headers, answer = await client.answer()
        assert (status, headers["Retry-After"], headers["Connection"]) == (408, "1", "close")
        assert answer["error"]["code"] == "request_timeout"
        assert await client.end() == b""
        await dripping
    assert await stored(impatient) == []
    assert caplog.text == ""


async def test_what_arrives_in_pieces_and_in_time_is_served(start_app: StartApp) -> None:
    app = await start_app({"server": {"readTimeoutMs": 20_000}})
    sent = body("e-1")
    async with line(app) as client:
        await client.drip(HEAD + b"Content-Length: %d\r\n\r\n" % len(sent) + sent, pause_ms=0)
        status, _, answer = await client.answer()
        assert (status, answer["id"]) == (200, "e-1")
        assert await alive(client)


async def time_out(app: App) -> None:
    """Let the time-out pass: for a request that began now, and so for all that was before it."""
    async with line(app) as slow:
        slow.send(b"G")
        assert (await slow.answer())[0] == 408


async def test_a_pause_between_requests_is_not_a_slow_request(impatient: App) -> None:
    async with line(impatient) as client, line(impatient) as silent:
        assert await alive(client)
        silent.send(b"\r\n")  # what some clients send behind a body
        await time_out(impatient)
        assert await alive(client)
        assert await alive(silent)
        await time_out(impatient)
        assert await alive(client)


async def test_the_second_request_of_a_connection_has_a_time_of_its_own(impatient: App) -> None:
    async with line(impatient) as client:
        client.send(LIVEZ + LIVEZ[:10])
        assert (await client.answer())[0] == 200
        client.send(LIVEZ[10:20])
        assert (await client.answer())[0] == 408


async def test_the_time_in_which_the_broker_works_does_not_count(impatient: App, client_of: Client) -> None:
    async with held_writer(impatient) as release:
        waiting = asyncio.create_task(client_of.enqueue("e-1"))
        await eventually(lambda: impatient.journal.queued == 1)
        await time_out(impatient)
        assert not waiting.done()
        release.set()
        assert (await waiting)["id"] == "e-1"


async def test_a_silent_websocket_is_not_too_slow(impatient: App, client_of: Client) -> None:
    async with client_of.subscribe() as subscriber:
        await time_out(impatient)
        await subscriber.settled()


@pytest.fixture
async def client_of(impatient: App, connect: Connect) -> Client:
    return await connect(impatient.server.address, headers=JSON)

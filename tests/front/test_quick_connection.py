"""A connection of the quick lane: what it may not mistake, and what it leans on in aiohttp."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
import pytest

from broker.app import App
from tests.conftest import StartApp
from tests.support.events import body
from tests.support.quick import (
    HEAD,
    PATIENCE_SECONDS,
    QuickLine,
    connections,
    enqueue,
    is_idle,
    quick_line,
    request,
    slow_requests,
    undated,
)
from tests.support.writer import eventually, held_writer, stored

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
async def line(app: App) -> AsyncIterator[QuickLine]:
    async with quick_line(app) as opened:
        yield opened


async def under_way(line: QuickLine, sent: bytes) -> None:
    """Send a request that the quick lane takes and cannot answer yet."""
    await eventually(lambda: is_idle(line.connection))
    line.writer.write(sent)
    await eventually(lambda: line.connection._quick)


async def test_a_request_cut_at_any_byte_has_the_same_answer(app: App, line: QuickLine) -> None:
    sent = enqueue("e-1")
    await line.ask(sent)
    expected = await line.ask(sent)
    head = sent.index(b"\r\n\r\n") + 4
    for cut in range(1, len(sent)):
        async with quick_line(app) as other:
            before = slow_requests(app)
            assert await other.ask(sent[:cut], sent[cut:]) == expected, cut
            assert slow_requests(app) == before + 1
            assert await other.ask(sent) == expected, cut
            assert slow_requests(app) == before + (1 if cut >= head else 2)


async def test_a_body_that_comes_in_many_pieces_leaves_the_connection_quick(app: App, line: QuickLine) -> None:
    sent = enqueue("e-1")
    head = sent.index(b"\r\n\r\n") + 4
    await line.ask(sent[: head + 3], sent[head + 3 : head + 9], sent[head + 9 :])
    before = slow_requests(app)
    assert b'"duplicate":true' in await line.ask(sent)
    assert slow_requests(app) == before


async def test_a_request_in_the_body_of_another_is_no_request(app: App, line: QuickLine) -> None:
    hidden = enqueue("hidden")
    outer = request(hidden)
    answer = await line.ask(outer[: -len(hidden)], hidden)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"duplicate":false' in await line.ask(enqueue("seen"))
    assert await stored(app) == ["seen"]


@pytest.mark.parametrize(
    "before",
    [
        b"POST /v1/enqueue HTTP/1.1\r\nX: ",
        b"POST /v1/enqueue HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n",
        LIVEZ + b"POST /v1/enqueue HTTP/1.1\r\nX: ",
        LIVEZ + b"P",
        b"\r",
    ],
)
async def test_a_request_behind_half_a_head_is_no_request_of_its_own(app: App, line: QuickLine, before: bytes) -> None:
    sent = enqueue("e-1")
    if b"%x" in before:
        before %= len(sent)
    slow = slow_requests(app)
    line.writer.write(before)
    await eventually(lambda: line.connection._owed == -1)
    if before.startswith(LIVEZ):
        assert b"200 OK" in await line.answer()
    await asyncio.sleep(0)
    line.writer.write(sent)
    await eventually(lambda: slow_requests(app) == slow + 1 + before.startswith(LIVEZ))
    assert not line.connection._quick
    if before.endswith(b"X: ") or before == b"\r":  # to aiohttp it is the value of a header, or preceded by nothing
        assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
    elif b"chunked" in before:
        line.writer.write(b"\r\n0\r\n\r\n")
        assert (await line.answer()).startswith(b"HTTP/1.1 415 ")
        assert await stored(app) == []
    else:
        assert await stored(app) == []


async def test_what_comes_behind_a_request_under_way_is_answered_after_it_in_order(app: App, line: QuickLine) -> None:
    async with held_writer(app):
        await under_way(line, enqueue("e-1"))
        slow = slow_requests(app)
        line.writer.write(enqueue("e-2") + LIVEZ + enqueue("e-3")[:50])
        await eventually(lambda: bool(line.connection._held))
        assert line.connection._buffer_paused
        line.writer.write(enqueue("e-3")[50:])
        assert slow_requests(app) == slow
    found = [await line.answer() for _ in range(4)]
    assert [b'"id":"e-%d"' % number in answer for number, answer in zip((1, 2, 0, 3), found, strict=True)] == [
        True, True, False, True,
    ]  # fmt: skip
    assert slow_requests(app) == slow + 3
    assert not line.connection._buffer_paused
    assert await stored(app) == ["e-1", "e-2", "e-3"]


async def test_a_single_request_behind_one_under_way_goes_the_quick_way_too(app: App, line: QuickLine) -> None:
    slow = slow_requests(app)
    async with held_writer(app):
        await under_way(line, enqueue("e-1"))
        line.writer.write(enqueue("e-2"))
        await eventually(lambda: bool(line.connection._held))
    assert b'"e-1"' in await line.answer()
    assert b'"e-2"' in await line.answer()
    assert slow_requests(app) == slow


async def test_no_more_is_held_than_was_read_already(app: App, line: QuickLine) -> None:
    async with held_writer(app):
        await under_way(line, enqueue("e-1"))
        line.writer.write(LIVEZ * 100_000)
        await eventually(lambda: bool(line.connection._held))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(line.connection._held) <= 1 << 18
        line.writer.transport.abort()
    await eventually(lambda: app.server.connections == 0)


async def test_a_connection_that_is_lost_during_the_commit_harms_nobody(app: App, line: QuickLine) -> None:
    async with held_writer(app):
        await under_way(line, enqueue("e-1"))
        line.writer.transport.abort()
        await eventually(lambda: app.server.connections == 0)
        assert app.server.traffic.under_way == 1
    await eventually(lambda: app.server.traffic.under_way == 0)
    assert await stored(app) == ["e-1"]


async def test_what_is_held_goes_with_its_connection(app: App, line: QuickLine) -> None:
    connection = line.connection
    async with held_writer(app):
        await under_way(line, enqueue("e-1"))
        line.writer.write(enqueue("e-2"))
        await eventually(lambda: bool(connection._held))
        connection.force_close()
        await eventually(lambda: app.server.connections == 0)
        assert connection._held == b""
    await eventually(lambda: app.server.traffic.under_way == 0)
    assert await stored(app) == ["e-1"]


async def test_a_client_that_stops_sending_ends_its_connection_as_ever(app: App, line: QuickLine) -> None:
    async with held_writer(app):
        await under_way(line, enqueue("e-1"))
        line.writer.write_eof()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await line.reader.read() == b""
    await eventually(lambda: app.server.traffic.under_way == 0)
    assert await stored(app) == ["e-1"]


async def test_a_draining_broker_waits_for_what_is_under_way(app: App, line: QuickLine) -> None:
    async with quick_line(app) as other:
        async with held_writer(app):
            await under_way(line, enqueue("e-1"))
            draining = asyncio.create_task(app.drain())
            await eventually(lambda: app.gate.draining)
            refused = await other.ask(enqueue("e-2"))
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert b"Connection: close" in refused
        assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
        await draining


async def test_a_connection_with_a_request_under_way_is_not_idle(app: App, line: QuickLine) -> None:
    connection = line.connection
    async with held_writer(app):
        await under_way(line, enqueue("e-1"))
        connection._next_keepalive_close_time = 0.0
        connection._process_keepalive()
        assert connection._keepalive_handle is None
        assert connection.transport is not None
    assert b'"e-1"' in await line.answer()
    await eventually(lambda: connection._keepalive_handle is not None)
    assert connection._next_keepalive_close_time > asyncio.get_running_loop().time()
    connection._process_keepalive()  # too early: it is set again
    assert connection.transport is not None
    connection._next_keepalive_close_time = 0.0
    connection._process_keepalive()
    assert connection.transport is None
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await line.reader.read() == b""


async def test_a_client_that_reads_no_answers_is_left_to_aiohttp(app: App, line: QuickLine) -> None:
    slow = slow_requests(app)
    line.connection.pause_writing()
    line.writer.write(enqueue("e-1"))
    await eventually(lambda: slow_requests(app) == slow + 1)
    line.connection.resume_writing()
    assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
    await line.ask(enqueue("e-2"))
    assert slow_requests(app) == slow + 1


@pytest.mark.parametrize("flag", ["_buffer_paused", "_reading_paused"])
async def test_while_aiohttp_does_not_read_nothing_goes_past_it(app: App, line: QuickLine, flag: str) -> None:
    slow = slow_requests(app)
    setattr(line.connection, flag, True)
    line.connection.data_received(enqueue("e-1"))
    assert not line.connection._quick
    setattr(line.connection, flag, False)
    assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
    assert slow_requests(app) == slow + 1


async def test_a_websocket_on_a_quick_connection_is_aiohttps(app: App) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{app.server.address}/v1/enqueue", json={}) as answer:
            assert answer.status == 400
        async with session.ws_connect(f"{app.server.address}/v1/publish") as socket:
            assert (await socket.receive_json()).keys() == {"window"}
            await socket.send_str(body("e-1").decode())
            assert (await socket.receive_json())["ack"] == "e-1"
            assert all(each._owed == -1 for each in connections(app) if each._payload_parser is not None)


async def test_half_a_request_is_timed_and_a_whole_one_is_not(start_app: StartApp) -> None:
    app = await start_app({"server": {"readTimeoutMs": 100}})
    async with quick_line(app) as line:
        async with held_writer(app):
            await under_way(line, enqueue("e-1"))
            assert line.connection._deadline is None
        await line.answer()
        line.writer.write(enqueue("e-2")[:-1])
        assert (await line.answer()).startswith(b"HTTP/1.1 408 ")


async def test_what_is_leaned_on_in_aiohttp_is_there(app: App, line: QuickLine) -> None:
    """The names, and what they are while a connection waits: an upgrade that changes one of them turns this red."""
    connection = line.connection
    assert isinstance(connection._waiter, asyncio.Future)
    assert not connection._waiter.done()
    assert not connection._messages
    assert connection._current_request is None
    assert connection._payload_parser is None
    assert connection._keepalive
    assert connection._keepalive_handle is not None
    assert connection._keepalive_timeout == 75.0
    assert [connection._paused, connection._buffer_paused, connection._reading_paused, connection._upgraded] == [
        False
    ] * 4
    async with held_writer(app):
        line.writer.write(enqueue("e-1")[:-1])
        await eventually(lambda: connection._owed == 1)
        assert connection._waiter is None or connection._waiter.done()  # a request is under way: there is no waiter
        line.writer.write(enqueue("e-1")[-1:])
        await eventually(lambda: app.journal.queued == 1)
        assert connection._waiter is None
        assert connection._current_request is not None
    await line.answer()
    await eventually(lambda: is_idle(connection))
    waiter = connection._waiter
    connection.close()
    assert waiter is not None
    assert waiter.done()
    connection.force_close()


async def test_whatever_is_changed_in_a_request_both_ways_say_the_same(start_app: StartApp) -> None:
    app = await start_app({"server": {"readTimeoutMs": 500}})
    sent = enqueue("e-1")
    async with quick_line(app) as line:
        await line.ask(sent)
    pieces = [
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\t",
        b":",
        b"\0",
        b"\x7f",
        b"\xe9",
        b"0",
        b"9",
        b"A: b\r\n",
        HEAD,
        b"Connection: close\r\n",
    ]
    pieces += [
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\n",
        b"Expect: x\r\n",
        b"Origin: a\r\n",
        b"X-Y",
        b"",
        b"",
    ]
    rng = random.Random(20)

    async def answers(data: bytes, owed: int) -> bytes:
        async with quick_line(app) as line:
            line.connection._owed = owed
            received = line.connection._request_count
            line.writer.write(data)
            await eventually(
                lambda: (
                    line.connection._request_count != received
                    or line.connection._quick
                    or line.connection._in_head
                    or line.connection.transport is None
                )
            )
            await eventually(lambda: is_idle(line.connection) or line.connection.transport is None)
            line.writer.write(b"\r\n" + LIVEZ.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            found = b""
            with suppress(ConnectionError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while chunk := await line.reader.read(1 << 16):
                        found += chunk
            return undated(found)

    async def compare() -> None:
        data = sent
        for _ in range(rng.randint(1, 2)):
            place = rng.randrange(sent.index(b"\r\n\r\n") + 2)
            data = data[:place] + rng.choice(pieces) + data[place + rng.choice((0, 0, 1, 2)) :]
        assert await answers(data, owed=0) == await answers(data, owed=-1), data

    for _ in range(4):
        await asyncio.gather(*(compare() for _ in range(25)))

"""`WS /v1/tail`: what is shown, to whom, and that nothing is consumed and nobody waits."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from broker.app import App
from broker.config import Auth, Token
from broker.deliveries import tail
from broker.front import tail as front_tail
from broker.journal.follow import follow
from tests.conftest import Connect, StartApp
from tests.support.client import PATIENCE_SECONDS, Client, assert_error
from tests.support.events import STREAM, raw_body, raw_envelope
from tests.support.raw import websocket
from tests.support.writer import eventually


class Follower:
    """One WebSocket that follows."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def frame(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            frame: dict[str, Any] = json.loads(await self.socket.receive_str())
        return frame

    async def seqs(self, count: int) -> list[int]:
        return [(await self.frame())["seq"] for _ in range(count)]

    async def close_code(self) -> int | None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await self.socket.receive()).type & 0x8:
                pass
        return self.socket.close_code


@asynccontextmanager
async def follower(client: Client, stream: str = STREAM, **query: str) -> AsyncIterator[Follower]:
    socket = await client.session.ws_connect("v1/tail", params={"stream": stream, **query})
    try:
        yield Follower(socket)
    finally:
        await socket.close()


async def test_new_events_of_a_pattern_are_shown_as_they_came_and_stay_where_they_are(client: Client) -> None:
    await client.enqueue("e-0", "a/old")
    async with follower(client, "a/*") as one, follower(client, "a/*") as other:
        raw = raw_envelope("e-1", b'{ "n": 123456789012345678901234567890 }', "a/b")
        await client.post(raw_body(raw, "a/b"))
        await client.enqueue("e-2", "b")
        await client.enqueue("e-3", "a/new")
        for each in (one, other):
            assert raw.decode() in await each.socket.receive_str(timeout=PATIENCE_SECONDS)
            assert (await each.frame()).items() >= {"stream": "a/new", "seq": 4}.items()
    async with client.subscribe("a/*") as subscriber:
        await subscriber.credit(3)
        assert sorted(await subscriber.ids(3)) == ["e-0", "e-1", "e-3"]


async def test_a_duplicate_is_not_shown(client: Client) -> None:
    async with follower(client) as shown:
        for event_id in ("e-1", "e-1", "e-2"):
            await client.enqueue(event_id)
        assert await shown.seqs(2) == [1, 2]


async def test_the_past_is_shown_from_a_sequence_on_and_then_what_comes(client: Client) -> None:
    for number in range(1, 6):
        await client.enqueue(f"e-{number}", "a/b" if number % 2 else "c")
    async with follower(client, "a/**", **{"from": "2"}) as shown:
        assert await shown.seqs(2) == [3, 5]
        await client.enqueue("e-6", "a/b")
        assert await shown.seqs(1) == [6]
    async with follower(client, "a/**", **{"from": "7"}) as shown:
        await client.enqueue("e-7", "a/b")
        assert await shown.seqs(1) == [7]


async def test_the_past_is_that_of_the_pattern_and_no_more(client: Client) -> None:
    for name in ("a/b/c", "a/b", "ab", "a/c"):
        await client.enqueue("e-1", name)
    async with follower(client, "a/*", **{"from": "1"}) as shown:
        assert await shown.seqs(2) == [2, 4]


async def test_what_comes_while_a_page_is_read_and_finds_no_room_is_in_the_next_page(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def slow_follow(*arguments: Any) -> Any:
        page = follow(*arguments)
        reading.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return page

    monkeypatch.setattr(tail, "TAIL_WAITING_MAX", 2)
    monkeypatch.setattr(front_tail, "follow", slow_follow)
    async with follower(client, **{"from": "1"}) as shown:
        assert await asyncio.to_thread(reading.wait, PATIENCE_SECONDS)
        await client.enqueue_all(*(f"e-{number}" for number in range(5)))
        go_on.set()
        assert await shown.seqs(5) == [1, 2, 3, 4, 5]


async def test_the_past_and_the_present_meet_without_a_gap_and_without_a_repetition(client: Client) -> None:
    async def publish() -> None:
        for number in range(300):
            await client.enqueue(f"e-{number}")

    publishing = asyncio.create_task(publish())
    async with follower(client, **{"from": "1"}) as shown:
        assert await shown.seqs(300) == list(range(1, 301))
    await publishing


async def test_events_in_memory_are_shown_too(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"perStreamCaps": {"fast/**": {"durability": "memory"}}}})
    client = await connect(app.server.address)
    async with follower(client, "**") as shown:
        await client.enqueue("e-1", "fast/a")
        await client.enqueue("e-2", "slow/a")
        assert [(await shown.frame())["stream"] for _ in range(2)] == ["fast/a", "slow/a"]


async def test_a_follower_that_does_not_read_misses_events_and_holds_up_nobody(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "TAIL_WAITING_MAX", 4)
    async with websocket(app, f"/v1/tail?stream={STREAM}") as (reader, writer):
        writer.transport.pause_reading()
        for number in range(40):
            await client.enqueue(f"e-{number}", payload="x" * 500_000)
        async with client.subscribe() as subscriber:
            await subscriber.credit(1)
            assert await subscriber.ids(1) == ["e-0"]
        writer.transport.resume_reading()
        seen = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b'{"missed":' not in seen:
                chunk = await reader.read(65_536)
                assert chunk, "the connection ended"
                seen = seen[-20:] + chunk


async def test_who_may_not_subscribe_may_not_follow(start_app: StartApp, connect: Connect) -> None:
    scopes = ["streams:mine/**:subscribe", "streams:*:enqueue"]
    app = await start_app({"auth": {"tokens": [{"token": "t", "scopes": scopes, "name": "t"}]}})
    client = await connect(app.server.address, headers={"Authorization": "Bearer t"})
    for pattern in ("**", "theirs/a", "*/a"):
        assert_error(await client.get(f"v1/tail?stream={pattern}"), 403, "forbidden")
    async with follower(client, "mine/*") as shown:
        await client.enqueue("e-1", "theirs/a")
        await client.enqueue("e-1", "mine/a")
        assert (await shown.frame())["stream"] == "mine/a"
        others = Auth(tokens=(Token(token="u", scopes=("admin:*",), name="u"),))
        replacing = asyncio.create_task(app.replace_tokens(others))
        assert await shown.close_code() == 4401
        assert await replacing == 1


@pytest.mark.parametrize(
    "query", ["", "stream=", "stream=a//b", "stream=a*", "stream=a&from=0", "stream=a&from=soon", "stream=a&form=1"]
)
async def test_a_wrong_query_is_refused(client: Client, query: str) -> None:
    assert_error(await client.get(f"v1/tail?{query}"), 400, "invalid_request")


async def test_a_follower_that_sends_something_is_refused(client: Client) -> None:
    async with follower(client) as shown:
        await shown.socket.send_json({"credit": 1})
        assert (await shown.frame())["error"]["code"] == "invalid_request"
        assert await shown.close_code() == 1007


async def test_a_broker_that_ends_says_so_and_lets_nobody_in(app: App, client: Client) -> None:
    async with follower(client) as shown:
        draining = asyncio.create_task(app.drain())
        assert await shown.close_code() == 1001
        await draining


async def test_a_follower_that_leaves_is_forgotten(app: App, client: Client) -> None:
    async with follower(client):
        await eventually(lambda: len(app.core.tails._queues) == 1)
    await eventually(lambda: not app.core.tails._queues)

"""The WebSocket client against a real server: frames, cursors, and connections that end."""

import json
import random
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from broker.journal.reader import in_business_order
from broker.limits import ENVELOPE_BYTES_MAX, SOURCE_FRAME_BYTES_MAX
from tests.sources.conftest import Pulling
from tests.support.golden import rejections
from tests.support.upstream import STREAM, Upstream, checkpoints, item, serving, until
from tests.support.writer import stored


async def test_frames_are_events_and_a_new_connection_goes_on_behind_the_cursor(
    upstream: Upstream, pulling: Pulling
) -> None:
    upstream.add(item(1), item(2))
    state = await pulling.listen()
    await until(lambda: state.cursor == "2")
    assert (state.phase, state.is_up) == ("connected", True)
    await upstream.tell(item(3))
    await until(lambda: state.cursor == "3")
    await upstream.hang_up()
    await upstream.tell(item(4))
    await until(lambda: state.cursor == "4" and state.phase == "connected")
    assert upstream.asked == ["/feed?after=", "/feed?after=3"]
    rows = await stored(pulling.app, "source_system, source_event_id, stream, type, source_sequence")
    assert rows == [("source:weather", f"w-{number}", STREAM, "rain", number) for number in range(1, 5)]
    assert await checkpoints(pulling.app) == {"source:weather": "4"}
    assert (state.duplicates, state.errors, state.rounds) == (0, 1, 2)
    assert state.last_error == "the server closed the connection with code 1001"


async def test_a_restart_of_the_broker_goes_on_behind_the_cursor(upstream: Upstream, pulling: Pulling) -> None:
    upstream.add(item(1), item(2))
    state = await pulling.listen()
    await until(lambda: state.cursor == "2")
    await pulling.app.drain()
    upstream.add(item(3))
    state = await pulling.listen()
    await until(lambda: state.cursor == "3")
    assert upstream.asked[-1] == "/feed?after=2"
    assert await stored(pulling.app) == ["w-1", "w-2", "w-3"]


async def test_the_cursor_may_be_in_a_first_message(upstream: Upstream, pulling: Pulling) -> None:
    firsts = []

    async def talk(request: web.Request, socket: web.WebSocketResponse) -> None:
        firsts.append(json.loads((await socket.receive()).data))
        if len(firsts) == 1:
            await socket.send_json(item(1, token='a"b\\c'))
            return
        await upstream.next_change()

    upstream.talk = talk
    state = await pulling.listen(
        url=f"{upstream.url.replace('http', 'ws')}/feed",
        cursor="/token",
        firstMessage='{"subscribe": "weather", "after": "{cursor}"}',
        firstCursor="start",
    )
    await until(lambda: len(firsts) == 2)
    assert firsts == [
        {"subscribe": "weather", "after": "start"},
        {"subscribe": "weather", "after": 'a"b\\c'},
    ]
    assert state.cursor == 'a"b\\c'


async def test_frames_that_are_no_json_are_kept_as_refused_and_stop_nothing(
    upstream: Upstream, pulling: Pulling
) -> None:
    garbage = [b"hello", b"", b'{"id": ', b'{"id": "\xff"}', b"[" * 70 + b"]" * 70, b"{}"]

    async def talk(request: web.Request, socket: web.WebSocketResponse) -> None:
        await socket.send_json(item(1))
        for frame in garbage:
            await socket._writer.send_frame(frame, WSMsgType.TEXT)
        await socket.send_bytes(b'{"id": "large", "x": "' + b"x" * ENVELOPE_BYTES_MAX + b'"}')
        await socket.send_json([item(2), {"no": "id"}, item(3)])
        await upstream.next_change()

    upstream.talk = talk
    state = await pulling.listen()
    await until(lambda: state.cursor == "3")
    assert await stored(pulling.app) == ["w-1", "w-2", "w-3"]
    assert (state.rejected, state.errors, state.phase) == (len(garbage) + 2, 0, "connected")
    kept = await rejections(pulling.app, "source_system, body")
    assert [body for _, body in kept][:3] == garbage[:3]
    assert {source for source, _ in kept} == {"source:weather"}


async def test_frames_without_items_are_passed_over(upstream: Upstream, pulling: Pulling) -> None:
    async def talk(request: web.Request, socket: web.WebSocketResponse) -> None:
        await socket.send_json({"type": "welcome"})
        await socket.send_json({"type": "data", "data": [item(1), item(2)], "position": "p2"})
        await socket.send_json({"type": "heartbeat"})
        await socket.send_json({"type": "data", "data": item(3), "position": "p3"})
        await upstream.next_change()

    upstream.talk = talk
    state = await pulling.listen(items="/data", cursor=None, nextCursor="/position")
    await until(lambda: state.cursor == "p3")
    assert await stored(pulling.app) == ["w-1", "w-2", "w-3"]
    assert state.rejected == 0


async def test_what_was_read_before_the_connection_broke_is_stored(upstream: Upstream, pulling: Pulling) -> None:
    async def talk(request: web.Request, socket: web.WebSocketResponse) -> None:
        if len(upstream.requests) > 1:
            await upstream.next_change()
            return
        for number in range(1, 1001):
            await socket.send_json(item(number))
        assert request.transport is not None
        request.transport.close()

    upstream.talk = talk
    state = await pulling.listen()
    await until(lambda: state.cursor == "1000")
    assert await checkpoints(pulling.app) == {"source:weather": "1000"}
    await until(lambda: upstream.asked == ["/feed?after=", "/feed?after=1000"])


async def test_pings_are_answered_and_a_server_that_answers_none_is_left(upstream: Upstream, pulling: Pulling) -> None:
    seen: list[WSMsgType] = []

    async def talk(request: web.Request, socket: web.WebSocketResponse) -> None:
        if len(upstream.requests) == 1:
            await socket.ping(b"there?")
            while True:
                message = await socket.receive()
                seen.append(message.type)
                if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING):
                    return
        while (message := await socket.receive()).type is WSMsgType.PING:
            seen.append(message.type)
            await socket.pong(message.data)

    upstream.talk = talk
    state = await pulling.listen(silenceMs=200)
    await until(lambda: len(upstream.requests) >= 2 and seen.count(WSMsgType.PING) >= 4)
    assert seen[:2] == [WSMsgType.PONG, WSMsgType.PING]
    assert state.errors == 1, "a server that answers its pings is left alone"
    assert state.last_error == "the server has sent nothing for 400 ms, and does not answer a ping"


@pytest.mark.parametrize(
    ("status", "headers", "waits_seconds"), [(403, {}, 0), (503, {"Retry-After": "3600"}, 3_500), (200, {}, 0)]
)
async def test_a_server_that_makes_no_websocket_of_it_is_asked_again(
    upstream: Upstream, pulling: Pulling, status: int, headers: dict[str, str], waits_seconds: int
) -> None:
    async def plain(request: web.Request) -> web.StreamResponse:
        upstream.requests.append(request)
        return web.Response(status=status, headers=headers)

    upstream.handle = plain  # type: ignore[method-assign]
    async with serving(upstream):
        state = await pulling.listen()
        await until(lambda: state.phase == "retrying")
    assert state.last_error == f"the server makes no WebSocket of it: {status}"
    assert state.next_attempt_at is not None
    assert state.next_attempt_at >= pulling.app.core.clock.wall_us() + waits_seconds * 1_000_000 - 1_000_000


async def test_a_redirect_to_another_origin_is_not_followed_here_either(upstream: Upstream, pulling: Pulling) -> None:
    async with serving(Upstream()) as stranger:

        async def away(request: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(f"{stranger.url}/feed")

        upstream.handle = away  # type: ignore[method-assign]
        async with serving(upstream):
            state = await pulling.listen(headers={"X-Api-Key": "k"})
            await until(lambda: state.errors >= 1)
        assert stranger.requests == []
    assert "which is another origin and is not followed" in (state.last_error or "")


async def test_a_frame_past_the_bound_ends_the_connection_with_a_reason(upstream: Upstream, pulling: Pulling) -> None:
    async def talk(request: web.Request, socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b" " * (SOURCE_FRAME_BYTES_MAX + 1))
        await upstream.next_change()

    upstream.talk = talk
    state = await pulling.listen()
    await until(lambda: state.errors >= 1)
    assert "exceeds limit" in (state.last_error or "") or "too large" in (state.last_error or "").lower(), (
        state.last_error
    )


async def test_out_of_order_and_repeated_frames_give_the_same_ledger_as_in_order(
    upstream: Upstream, pulling: Pulling, tmp_path: Path
) -> None:
    """The same rows but for their order and how often each was seen; by their sequence they are in order (002)."""
    frames = [item(number) for number in range(1, 301)]
    shuffled = [*frames, *frames[::3]]
    random.Random(20260219).shuffle(shuffled)
    columns = (
        "source_system, source_event_id, stream, type, source_sequence, source_emitted_at, envelope, payload_sha256"
    )
    ledgers = []
    for name, sent in (("in-order", frames), ("at-odds", shuffled)):

        async def talk(
            request: web.Request, socket: web.WebSocketResponse, sent: list[dict[str, object]] = sent
        ) -> None:
            for frame in sent:
                await socket.send_json(frame)
            await upstream.next_change()

        upstream.talk = talk
        state = await pulling.listen({"data": str(tmp_path / name)})
        await until(lambda state=state, sent=sent: state.events + state.duplicates == len(sent))  # type: ignore[misc]
        assert (state.events, state.duplicates) == (300, len(sent) - 300)
        ledgers.append(await stored(pulling.app, columns))
        by_sequence = await pulling.app.journal.readers.run(in_business_order, "source:weather", 1000)
        assert [event.source_event_id for event in by_sequence] == [f"w-{number}" for number in range(1, 301)]
    in_order, at_odds = ledgers
    assert in_order != at_odds
    assert sorted(in_order) == sorted(at_odds)

"""Sources that bring more than can be taken, and servers that are not there."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from broker.app import App
from broker.limits import SOURCE_BATCH_ITEMS_MAX
from broker.sources.rest_poller import RestPoller
from tests.journal.conftest import event
from tests.sources.conftest import Pulling
from tests.support.client import Client
from tests.support.upstream import Upstream, checkpoints, item, rest, serving, until, websocket
from tests.support.writer import held_writer, stored

QUEUE = 100


@asynccontextmanager
async def held_up(app: App) -> AsyncIterator[None]:
    """The writer waits, as for a slow disk, and the ingest queue has no room, until the end of the block."""
    others = [event(f"full-{at}", stream="other") for at in range(QUEUE)]
    async with held_writer(app) as release:
        filling = asyncio.ensure_future(app.journal.append(others))
        try:
            await until(lambda: app.journal.queued >= QUEUE)
            yield
        finally:
            release.set()
            await filling


async def test_a_poller_waits_for_room_and_says_so(upstream: Upstream, pulling: Pulling, connect: Any) -> None:
    count = 4 * SOURCE_BATCH_ITEMS_MAX
    upstream.page = count
    state = await pulling.poll({"journal": {"queueMax": QUEUE}}, intervalMs=1000)
    await until(lambda: state.phase == "waiting")
    upstream.add(*(item(number) for number in range(1, count + 1)))
    client: Client = await connect(pulling.app.server.address)
    async with held_up(pulling.app):
        await until(lambda: state.phase == "paused")
        held = (state.events, len(upstream.requests), pulling.app.journal.queued)
        answer = await client.get("v1/sources")
        assert answer.body["sources"][0]["state"] == "paused"
        assert answer.body["sources"][0]["saturations"] >= 1
        assert (state.events, len(upstream.requests), pulling.app.journal.queued) == held
        assert held[0] + held[2] <= SOURCE_BATCH_ITEMS_MAX + QUEUE
    await until(lambda: state.cursor == str(count))
    assert (state.events, state.duplicates) == (count, 0)
    assert len(await stored(pulling.app, where="stream <> 'other'")) == count


async def test_a_flood_of_frames_stays_in_the_sockets(upstream: Upstream, pulling: Pulling) -> None:
    """The server is told by its own full socket to wait; the broker holds what one group may hold, twice."""
    sent = 0
    ended = False
    waiting_since: float | None = None
    frame = b'{"id": "w-%d", "seq": %d, "x": "' + b"x" * 10_000 + b'"}'

    async def flood(request: web.Request, socket: web.WebSocketResponse) -> None:
        nonlocal sent, waiting_since
        while not ended and not socket.closed:
            waiting_since = time.monotonic()
            await socket.send_bytes(frame % (sent, sent))
            waiting_since = None
            sent += 1
            await asyncio.sleep(0)

    upstream.talk = flood
    state = await pulling.listen({"journal": {"queueMax": QUEUE}})
    await until(lambda: state.events > 0)
    async with held_writer(pulling.app):
        await until(lambda: waiting_since is not None and time.monotonic() - waiting_since > 0.5)
        held, taken = sent, state.events
        assert (sent - taken) * len(frame) < 40_000_000, "the rest is in the buffers of two sockets"
        assert state.events == taken
    await until(lambda: state.events > held)
    ended = True  # else the server would go on for as long as its socket is being closed
    assert state.duplicates == 0


async def test_a_quota_slows_a_source_down_and_loses_nothing(upstream: Upstream, pulling: Pulling) -> None:
    upstream.add(*(item(number) for number in range(1, 9)))
    upstream.page = 8
    caps = {"feeds/*": {"rate": {"perSecond": 20, "burst": 5}}}
    state = await pulling.poll({"streams": {"perStreamCaps": caps}})
    await until(lambda: state.cursor == "8")
    assert await stored(pulling.app) == [f"w-{number}" for number in range(1, 9)]
    assert state.saturations >= 1
    assert (state.duplicates, state.errors) == (0, 0)


async def test_the_cursor_is_not_written_before_the_last_group_of_a_page(upstream: Upstream, pulling: Pulling) -> None:
    """A page of several commits: what a crash between them leaves is read again, from the cursor of before."""
    count = 2 * SOURCE_BATCH_ITEMS_MAX
    upstream.page = count
    upstream.add(*(item(number) for number in range(1, count + 1)))
    seen: list[tuple[int, str | None]] = []
    state = await pulling.poll()
    gate = pulling.app.gate
    submit = gate.submit

    def watched(*arguments: Any, **more: Any) -> None:
        seen.append((state.events, state.cursor))
        submit(*arguments, **more)

    gate.submit = watched  # type: ignore[method-assign]
    await until(lambda: state.cursor == str(count))
    assert [events for events, _ in seen] == [0, SOURCE_BATCH_ITEMS_MAX]
    assert {cursor for _, cursor in seen} == {None}
    assert await checkpoints(pulling.app) == {"source:weather": str(count)}


async def test_a_server_that_is_down_is_tried_later_and_later(upstream: Upstream, pulling: Pulling) -> None:
    async with serving(Upstream()) as gone:
        url = gone.url
    used = time.process_time()
    started = time.monotonic()
    state = await pulling.poll(url=f"{url}/events?after={{cursor}}", backoffMaxMs=60_000)
    await until(lambda: state.errors >= 2)
    assert time.monotonic() - started >= 0.5, "the first wait is at least half a second"
    assert state.next_attempt_at is not None
    assert state.next_attempt_at - pulling.app.core.clock.wall_us() > 900_000, "the second is at least a second"
    assert "Cannot connect to host 127.0.0.1" in (state.last_error or "")
    assert time.process_time() - used < 5, "nothing spins"
    assert (state.phase, state.is_up) == ("retrying", False)


async def test_a_source_that_comes_back_is_taken_up_where_it_was(pulling: Pulling, upstream: Upstream) -> None:
    first = Upstream()
    first.add(item(1))
    async with serving(first):
        port = int(first.url.rpartition(":")[2])
        state = await pulling.poll(url=f"{first.url}/events?after={{cursor}}")
        await until(lambda: state.cursor == "1")
    await until(lambda: not state.is_up)
    first.add(item(2))
    async with serving(first, port):
        await until(lambda: state.cursor == "2")
        await until(lambda: state.is_up)
    assert await stored(pulling.app) == ["w-1", "w-2"]


async def test_one_source_that_fails_is_no_matter_to_another(upstream: Upstream, pulling: Pulling) -> None:
    upstream.add(item(1))
    bad = rest(upstream, name="bad", url=f"{upstream.url}/events?after={{cursor}}&bad", sequence="/x")
    page = upstream.answer

    async def sometimes(request: web.Request) -> web.StreamResponse:
        if "bad" in request.query:
            return web.Response(body=b"garbage")
        return await page(request)

    upstream.answer = sometimes
    await pulling.start({"rest": [bad, rest(upstream)], "websocket": [websocket(upstream, name="frames")]})
    states = {state.name: state for state in pulling.app.sources.states}
    await until(lambda: states["bad"].errors >= 3)
    await until(lambda: states["weather"].events == states["frames"].events == 1)
    assert await stored(pulling.app, "source_system, source_event_id") in (
        [("source:weather", "w-1"), ("source:frames", "w-1")],
        [("source:frames", "w-1"), ("source:weather", "w-1")],
    )


async def test_a_mistake_of_ours_is_logged_and_tried_again_too(
    upstream: Upstream, pulling: Pulling, monkeypatch: Any, caplog: Any
) -> None:
    upstream.add(item(1))
    whole = RestPoller.round
    failed = []

    async def once(self: RestPoller) -> float:
        if not failed:
            failed.append(1)
            raise KeyError("a mistake")
        return await whole(self)

    monkeypatch.setattr(RestPoller, "round", once)
    state = await pulling.poll()
    await until(lambda: state.events == 1)
    assert state.errors == 1
    assert "source weather met something that it does not know" in caplog.text

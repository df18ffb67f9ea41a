"""`GET /v1/snapshot` and `WS /v1/live` over sockets: no gap, coalesced for the slow, closed with the broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from broker.app import App
from broker.config import Auth
from broker.front import views as front_views
from broker.limits import WRITE_BYTES_MAX
from tests.conftest import Connect, StartApp
from tests.journal.conftest import until
from tests.support.client import PATIENCE_SECONDS, Client, Subscriber, assert_error
from tests.support.events import AWKWARD_PAYLOADS, STREAM, body, envelope, raw_body, raw_envelope
from tests.support.raw import websocket
from tests.support.views import VIEW, Folded, agent

SNAPSHOT = f"v1/snapshot?view={VIEW}"


@asynccontextmanager
async def live(client: Client, headers: dict[str, str] | None = None) -> AsyncIterator[Subscriber]:
    """A reader of the view."""
    async with client.session.ws_connect("v1/live", params={"view": VIEW}, headers=headers) as socket:
        yield Subscriber(socket)


async def frame(reader: Subscriber) -> str:
    message = await reader.message()
    assert message.type is aiohttp.WSMsgType.TEXT, message
    text: str = message.data
    return text


async def until_seq(reader: Subscriber, folded: Folded, seq: int) -> None:
    """Take frames until the reader knows the view at a sequence."""
    while folded.seq < seq or folded.frames[-1].more:
        folded.take(await frame(reader))


async def test_a_snapshot_has_the_last_envelope_of_each_agent_and_its_sequence(client: Client) -> None:
    assert (await client.get(SNAPSHOT)).body == {"view": VIEW, "seq": 0, "snapshot": {}}
    await client.enqueue_all("e-1", "e-2")
    await client.enqueue("e-3", agent("Bob"))
    await client.enqueue("e-4", "jobs/render")
    answer = await client.get(SNAPSHOT)
    assert answer.status == 200
    assert answer.body == {
        "view": VIEW,
        "seq": 4,
        "snapshot": {STREAM: envelope("e-2"), agent("Bob"): envelope("e-3", agent("Bob"))},
    }
    await client.enqueue("e-2")
    assert (await client.get(SNAPSHOT)).body == answer.body, "a duplicate is no new event"


async def test_envelopes_leave_as_they_came(client: Client) -> None:
    async with live(client) as reader:
        await frame(reader)
        for number, payload in enumerate(AWKWARD_PAYLOADS, start=1):
            sent = raw_envelope(f"e-{number}", payload)
            assert (await client.post(raw_body(sent))).status == 200
            entry = b'{"%b":%b}' % (STREAM.encode(), sent)
            assert await frame(reader) == (b'{"delta":%b,"seq":%d}' % (entry, number)).decode()
            async with client.session.get(SNAPSHOT) as response:
                assert await response.read() == b'{"view":"%b","seq":%d,"snapshot":%b}' % (VIEW.encode(), number, entry)


async def test_a_large_snapshot_is_whole(client: Client) -> None:
    for number in range(7):
        await client.enqueue(f"e-{number}", agent(number), payload="x" * (WRITE_BYTES_MAX // 3))
    answer = await client.get(SNAPSHOT)
    assert {key: value["id"] for key, value in answer.body["snapshot"].items()} == {
        agent(number): f"e-{number}" for number in range(7)
    }


@pytest.mark.parametrize("path", ["v1/snapshot", "v1/live"])
async def test_a_view_that_does_not_exist_is_refused_with_those_that_do(client: Client, path: str) -> None:
    message = assert_error(await client.get(f"{path}?view=latestPerAgnt"), 404, "not_found")
    assert message == "there is no view 'latestPerAgnt'; there is latestPerAgent"
    message = assert_error(await client.get(path), 400, "invalid_request")
    assert message == f"view: it is missing; ask for /{path}?view=NAME, where NAME is latestPerAgent"
    assert_error(await client.get(f"{path}?view={VIEW}&limit=3"), 400, "invalid_request")


@pytest.mark.parametrize(
    ("scope", "status"),
    [("views:*:read", 200), (f"views:{VIEW}:read", 200), ("views:other:read", 403), ("admin:*", 403)],
)
async def test_a_view_needs_its_scope(start_app: StartApp, connect: Connect, scope: str, status: int) -> None:
    app = await start_app({"auth": {"tokens": [{"token": "t", "scopes": [scope]}]}})
    client = await connect(app.server.address, headers={"Authorization": "Bearer t"})
    answer = await client.get(SNAPSHOT)
    assert answer.status == status
    if status == 200:
        async with live(client) as reader:
            assert await frame(reader) == '{"snapshot":{},"seq":0}'
    else:
        assert_error(answer, 403, "forbidden")
        assert_error(await client.get(f"v1/live?view={VIEW}"), 403, "forbidden")
        assert_error(await client.get(SNAPSHOT, {"Authorization": "Bearer x"}), 401, "unauthorized")


async def test_every_reader_knows_the_view_at_every_sequence_it_is_told_while_others_publish(
    app: App, client: Client
) -> None:
    events, agents = 1_500, 7
    history: dict[int, tuple[str, str]] = {}
    views: list[tuple[Folded, list[tuple[int, dict[str, str]]]]] = []

    async def produce(number: int) -> None:
        async with client.session.ws_connect("v1/publish") as socket:
            await socket.receive()
            for at in range(0, events, 5):
                ids = [f"p{number}-{at + place}" for place in range(5)]
                to = [agent((at + place) * (number + 1) % agents) for place in range(5)]
                await socket.send_str("[" + ",".join(body(*pair).decode() for pair in zip(ids, to, strict=True)) + "]")
                for address in to:
                    ack = json.loads((await socket.receive()).data)
                    history[ack["seq"]] = (address, ack["ack"])

    async def follow(after: int) -> None:
        await until(lambda: app.views.find(VIEW).seq >= after)
        folded, known = Folded(), []
        views.append((folded, known))
        async with live(client) as reader:
            while folded.seq < 2 * events:
                if not folded.take(await frame(reader)).more:
                    known.append((folded.seq, {key: value["id"] for key, value in folded.entries.items()}))

    async with asyncio.timeout(PATIENCE_SECONDS * 3):
        await asyncio.gather(produce(0), produce(1), *(follow(after) for after in (0, 1, 500, 1_000, 2_000)))
    assert sorted(history) == list(range(1, 2 * events + 1))
    states: list[dict[str, str]] = [{}]
    for seq in range(1, 2 * events + 1):
        address, event_id = history[seq]
        states.append(states[-1] | {address: event_id})
    assert sum(len(known) for _folded, known in views) > 50
    for _folded, known in views:
        for seq, entries in known:
            assert entries == states[seq]


async def test_a_reader_that_does_not_read_is_owed_one_frame_for_all_it_missed(app: App, client: Client) -> None:
    view = app.views.find(VIEW)
    async with websocket(app, f"/v1/live?view={VIEW}") as (reader, writer):
        writer.transport.pause_reading()
        filler = "x" * 200_000
        sent = 0
        while not any(listener.coalesced for listener in app.views._live[VIEW]):  # until its line is full
            sent += 1
            await client.enqueue(f"e-{sent}", payload=filler)
            assert sent < 500
        for number in range(50):
            await client.enqueue(f"late-{number}", payload=filler)
        (deltas,) = app.views._live[VIEW]
        assert list(deltas._pending) == [STREAM], "a name, however often it changed"
        assert app.views.coalesced(VIEW) >= 50
        writer.transport.resume_reading()
        last = b'"seq":%d}' % view.seq
        received = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not received.endswith(last):
                received += await reader.read(WRITE_BYTES_MAX)
        assert b"late-49" in received
        assert b"late-48" not in received
    await until(lambda: not app.views.readers(VIEW))
    assert len(view.listeners) == 1, "the store"
    assert app.views.coalesced(VIEW) >= 50, "what is gone is still counted"


async def test_what_a_view_forgets_its_readers_are_told_to_forget(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"views": {"maxEntries": 2}})
    client = await connect(app.server.address)
    async with live(client) as reader:
        folded = Folded()
        for number, name in enumerate("abc", start=1):
            await client.enqueue(f"e-{number}", agent(name))
            await until_seq(reader, folded, number)
    assert folded.frames[-1].entries == {agent("c"): envelope("e-3", agent("c")), agent("a"): None}
    assert folded.entries == (await client.get(SNAPSHOT)).body["snapshot"]


async def test_streams_in_memory_are_in_the_view(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"perStreamCaps": {agent("m"): {"durability": "memory"}}}})
    client = await connect(app.server.address)
    async with live(client) as reader:
        await frame(reader)
        await client.enqueue("e-1")
        assert json.loads(await frame(reader)) == {"delta": {STREAM: envelope("e-1")}, "seq": 1}
        await client.enqueue("e-2", agent("m"))
        assert json.loads(await frame(reader)) == {"delta": {agent("m"): envelope("e-2", agent("m"))}, "seq": 1}
        lines = body("e-3") + b"\n" + body("e-4", agent("m"))
        answer = await client.session.post("v1/enqueue", data=lines, headers={"Content-Type": "application/x-ndjson"})
        assert answer.status == 200
        folded = Folded()
        folded.take('{"snapshot":{},"seq":0}')
        while folded.entries.get(agent("m"), {}).get("id") != "e-4":
            folded.take(await frame(reader))
    snapshot = (await client.get(SNAPSHOT)).body
    assert {key: value["id"] for key, value in snapshot["snapshot"].items()} == {STREAM: "e-3", agent("m"): "e-4"}
    assert snapshot["seq"] == 2


async def test_a_frame_from_the_reader_is_refused_and_ends_the_connection(client: Client) -> None:
    async with live(client) as reader:
        await frame(reader)
        await reader.send(credit=1)
        error = await reader.error()
        assert (error["code"], error["message"]) == ("invalid_request", "/v1/live takes no frames; it only sends")
        assert await reader.close_code() == 1007


async def test_the_readers_of_a_revoked_token_are_closed_and_those_of_others_stay(
    start_app: StartApp, connect: Connect
) -> None:
    tokens = [
        {"name": name, "token": name, "scopes": ["views:*:read", "streams:*:enqueue"]} for name in ("good", "bad")
    ]
    app = await start_app({"auth": {"tokens": tokens}})
    client = await connect(app.server.address)
    good, bad = ({"Authorization": f"Bearer {name}"} for name in ("good", "bad"))
    async with live(client, good) as stays, live(client, bad) as goes:
        await frame(stays)
        await frame(goes)
        assert await app.replace_tokens(Auth(tokens=app.config.auth.tokens[:1])) == 1
        assert (await goes.error())["code"] == "unauthorized"
        assert await goes.close_code() == 4401
        assert (await client.post(body("e-1"), good)).status == 200
        assert json.loads(await frame(stays))["seq"] == 1


async def test_a_drain_tells_the_readers_and_lets_no_more_in(start_app: StartApp, connect: Connect) -> None:
    app = await start_app()
    client = await connect(app.server.address)
    await client.enqueue("e-1")
    async with live(client) as reader:
        await frame(reader)
        draining = asyncio.create_task(app.drain())
        assert await reader.close_code() == 1001
        await draining
    assert app.views.saved_seq == app.views.find(VIEW).seq == 1


async def test_snapshots_at_once_are_bounded_and_a_client_that_does_not_read_its_own_is_cut_off(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_views, "STALLED_READER_MS_MAX", 500)
    monkeypatch.setattr(front_views, "SNAPSHOTS_AT_ONCE_MAX", 1)
    for number in range(20):
        await client.enqueue(f"e-{number}", agent(number), payload="x" * 1_000_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", app.server.port)
    writer.transport.pause_reading()
    writer.write(f"GET /{SNAPSHOT} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await until(lambda: app.server.traffic.under_way == 1)
    message = assert_error(await client.get(SNAPSHOT), 503, "saturated", retryable=True)
    assert message == "1 snapshots are being sent already; ask again later"
    await until(lambda: app.server.traffic.under_way == 0)
    assert (await client.get(SNAPSHOT)).status == 200
    writer.transport.resume_reading()
    received = bytearray()
    with suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while chunk := await reader.read(WRITE_BYTES_MAX):
                received += chunk
    writer.transport.abort()
    assert b"e-0" in received
    assert b"e-19" not in received


async def restart(start_app: StartApp, app: App, connect: Connect, **config: Any) -> Client:
    await app.drain()
    return await connect((await start_app(config)).server.address)


async def test_after_a_restart_the_view_is_what_it_was(start_app: StartApp, connect: Connect) -> None:
    app = await start_app()
    client = await connect(app.server.address)
    await client.enqueue_all("e-1", "e-2")
    await client.enqueue("e-3", agent("Bob"))
    before = (await client.get(SNAPSHOT)).body
    client = await restart(start_app, app, connect)
    assert (await client.get(SNAPSHOT)).body == before
    async with live(client) as reader:
        assert json.loads(await frame(reader)) == {"snapshot": before["snapshot"], "seq": before["seq"]}

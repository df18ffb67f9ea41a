"""`WS /v1/ingress` and `POST /v1/events`: devices send, and are answered in order, after the commit (000)."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from broker.app import App
from broker.clock import ManualClock
from broker.limits import REJECTION_BODY_BYTES_MAX, REJECTIONS_BURST_MAX, REJECTIONS_MAX
from tests.conftest import Connect, StartApp, StartBroker
from tests.support import ledger
from tests.support.client import JSON, PATIENCE_SECONDS, Answer, Client
from tests.support.golden import rejections
from tests.support.skyra import DEVICE, raw
from tests.support.writer import eventually, held_writer, stored

WINDOW = {"window": 10_000}
STREAM = f"devices/{DEVICE}/events"


class Device:
    """One socket of a device."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, *frames: bytes) -> None:
        for frame in frames:
            await self.socket.send_str(frame.decode())

    async def receive(self, count: int = 1) -> list[dict[str, Any]]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [json.loads(await self.socket.receive_str()) for _ in range(count)]


@asynccontextmanager
async def ingress(client: Client, headers: Mapping[str, str] | None = None) -> AsyncIterator[Device]:
    async with client.session.ws_connect("v1/ingress", headers=headers) as socket:
        device = Device(socket)
        assert await device.receive() == [WINDOW]
        yield device


async def post(client: Client, body: bytes, **headers: str) -> Answer:
    return await client.request("POST", "v1/events", data=body, headers=JSON | headers)


def ids(count: int) -> list[str]:
    return [f"evt_{number}" for number in range(1, count + 1)]


async def test_pipelined_events_are_acknowledged_in_their_order(app: App, client: Client) -> None:
    async with ingress(client) as device:
        await device.send(*(raw(event_id) for event_id in ids(500)))
        answers = await device.receive(500)
    assert [answer["event_id"] for answer in answers] == ids(500)
    assert {answer["status"] for answer in answers} == {"stored"}
    assert await stored(app) == ids(500)


async def test_no_acknowledgement_leaves_before_the_commit(app: App, client: Client) -> None:
    async with ingress(client) as device:
        async with held_writer(app) as release:
            await device.send(raw("evt_1"), raw("evt_1"))
            await eventually(lambda: app.journal.queued == 2)
            waiting = asyncio.create_task(device.receive(2))
            await asyncio.sleep(0)
            assert not waiting.done()
            release.set()
        first, second = await waiting
    assert second == first | {"duplicate": True}


async def test_refusals_keep_their_place_among_the_acknowledgements(app: App, client: Client) -> None:
    async with ingress(client) as device:
        await device.send(raw("a"), b"{", b"[%b,%b,%b]" % (raw("b"), raw("c", type=5), raw("d")), b"[]", raw("e"))
        answers = await device.receive(7)
    assert [(answer.get("event_id"), answer["status"]) for answer in answers] == [
        ("a", "stored"),
        (None, "rejected"),
        ("b", "stored"),
        ("c", "rejected"),
        ("d", "stored"),
        (None, "rejected"),
        ("e", "stored"),
    ]
    assert await stored(app) == ["a", "b", "d", "e"]
    assert await rejections(app, "source_event_id, code") == [
        (None, "invalid_envelope"),
        ("c", "invalid_envelope"),
        (None, "invalid_request"),
    ]


async def test_an_array_is_one_commit(app: App, client: Client) -> None:
    async with ingress(client) as device:
        commits = app.journal.health.commits
        await device.send(b"[%b]" % b",".join(raw(event_id) for event_id in ids(100)))
        assert [answer["event_id"] for answer in await device.receive(100)] == ids(100)
    assert app.journal.health.commits == commits + 1


async def test_a_binary_frame_is_refused_and_the_socket_goes_on(app: App, client: Client) -> None:
    async with ingress(client) as device:
        await device.socket.send_bytes(raw("a"))
        await device.send(raw("b"))
        refused, taken = await device.receive(2)
    assert refused["error"]["message"] == "frames are JSON text, not binary"
    assert taken["event_id"] == "b"
    assert await stored(app) == ["b"]


async def test_past_the_window_the_socket_is_not_read(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ingress(client) as device:
        monkeypatch.setattr("broker.front.answers.PUBLISH_WINDOW", 5)
        async with held_writer(app):
            await device.send(*(raw(event_id) for event_id in ids(20)))
            await eventually(lambda: app.journal.queued == 5)
        assert [answer["event_id"] for answer in await device.receive(20)] == ids(20)


async def test_a_drain_answers_what_was_received_and_then_says_goodbye(app: App, client: Client) -> None:
    async with ingress(client) as device:
        async with held_writer(app):
            await device.send(*(raw(event_id) for event_id in ids(10)))
            await eventually(lambda: app.journal.queued == 10)
            draining = asyncio.create_task(app.drain())
        assert [answer["event_id"] for answer in await device.receive(10)] == ids(10)
        async with asyncio.timeout(PATIENCE_SECONDS):
            goodbye = await device.socket.receive()
        assert (goodbye.type, goodbye.data) == (aiohttp.WSMsgType.CLOSE, 1001)
        await draining


async def test_a_subscriber_gets_the_devices_own_bytes(app: App, client: Client) -> None:
    envelope = raw("a", payload={"n": 10**30}).replace(b", ", b" ,\t")
    assert (await post(client, envelope)).status == 200
    async with client.subscribe(STREAM) as subscriber:
        await subscriber.credit(1)
        message = await subscriber.message()
        assert message.data.encode() == b'{"deliver":%b,"attempt":1,"seq":1}' % envelope
        await subscriber.ack("a")
    assert (await client.get("v1/receipts/local/a")).body["contract"] == "skyra"


TOKENS = {
    "auth": {
        "tokens": [
            {"name": "kitchen", "token": "k", "scopes": ["devices:kitchen/*"]},
            {"name": "other", "token": "o", "scopes": ["devices:hall", "streams:**:enqueue"]},
            {"name": "reader", "token": "r", "scopes": ["streams:devices/**:subscribe"]},
        ]
    }
}


async def test_a_token_speaks_for_the_devices_of_its_scope_and_sees_its_own_receipts(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app(TOKENS)
    client = await connect(app.server.address)
    kitchen, other, reader = ({"Authorization": f"Bearer {token}"} for token in "kor")
    envelope = raw("a", device_id="kitchen/pi-1")
    assert (await post(client, envelope, **kitchen)).status == 200
    for headers in (other, reader):  # a scope of streams does not make anybody a device
        refused = await post(client, envelope, **headers)
        assert (refused.status, refused.body["error"]["code"]) == (403, "forbidden")
    async with ingress(client, kitchen) as device:
        await device.send(raw("b", device_id="kitchen/pi-2"), raw("c", device_id="hall"))
        taken, refused_frame = await device.receive(2)
    assert (taken["status"], refused_frame["status"]) == ("stored", "rejected")
    assert await stored(app, "source_system, source_event_id") == [("kitchen", "a"), ("kitchen", "b")]
    found = [await client.get("v1/receipts/kitchen/a", headers) for headers in (kitchen, reader, other)]
    assert [answer.status for answer in found] == [200, 200, 404]


async def test_a_revoked_token_loses_its_socket(start_app: StartApp, connect: Connect) -> None:
    app = await start_app(TOKENS)
    client = await connect(app.server.address)
    async with ingress(client, {"Authorization": "Bearer k"}) as device:
        kept = tuple(token for token in app.config.auth.tokens if token.name != "kitchen")
        assert await app.replace_tokens(type(app.config.auth)(tokens=kept)) == 1
        assert (await device.receive())[0]["error"]["code"] == "unauthorized"


async def test_over_quota_is_an_error_that_may_be_retried_and_leaves_no_row(
    start_app: StartApp, connect: Connect
) -> None:
    caps = {"devices/**": {"rate": {"perSecond": 0.001, "burst": 1}}}
    app = await start_app({"streams": {"perStreamCaps": caps}})
    client = await connect(app.server.address)
    assert (await post(client, raw("a"))).status == 200
    refused = await post(client, raw("b"))
    assert (refused.status, refused.body["status"], refused.body["event_id"]) == (429, "error", "b")
    assert refused.body["error"]["retryable"] is True
    assert refused.headers["Retry-After"] == "1000"
    assert await rejections(app) == []


async def test_a_stream_in_memory_cannot_keep_the_promise_and_says_so(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"perStreamCaps": {"devices/**": {"durability": "memory"}}}})
    client = await connect(app.server.address)
    refused = await post(client, raw("a"))
    assert (refused.status, refused.body["status"]) == (503, "error")
    assert "durability: journal" in refused.body["error"]["message"]
    async with ingress(client) as device:
        await device.send(raw("a"), b"{")
        assert [answer["status"] for answer in await device.receive(2)] == ["error", "rejected"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "deflate"}, 415),
        ({"Content-Encoding": "identity"}, 400),
    ],
)
async def test_a_form_or_a_packed_body_is_not_even_read(
    headers: dict[str, str], status: int, app: App, client: Client
) -> None:
    answer = await post(client, b"event_id=1", **headers)
    assert answer.status == status
    assert len(await rejections(app)) == (status == 400)


async def test_the_table_of_rejections_keeps_the_newest_and_the_beginning_of_their_bodies(
    start_app: StartApp, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.journal.rejections.REJECTIONS_MAX", 5)
    app = await start_app()
    client = await connect(app.server.address)
    for number in range(12):
        await post(client, raw(f"evt_{number}", payload="x" * 5000))
    kept = await rejections(app, "source_event_id, length(body)")
    assert kept == [(f"evt_{number}", REJECTION_BODY_BYTES_MAX) for number in range(7, 12)]
    assert REJECTIONS_MAX * REJECTION_BODY_BYTES_MAX <= 64 * 1024 * 1024


async def test_a_flood_of_refusals_is_answered_but_not_written(start_app: StartApp, connect: Connect) -> None:
    clock = ManualClock()
    app = await start_app(clock=clock)
    client = await connect(app.server.address)
    async with ingress(client) as device:
        await device.send(*[b"[%b]" % b",".join([b"{}"] * 500)] * 4)
        assert {answer["status"] for answer in await device.receive(2000)} == {"rejected"}
        assert len(await rejections(app)) == REJECTIONS_BURST_MAX == app.rejections.kept
        assert app.rejections.dropped == 2000 - REJECTIONS_BURST_MAX
        clock.advance(50)
        await device.send(b"[%b]" % b",".join([b"{}"] * 500))
        await device.receive(500)
    assert len(await rejections(app)) == REJECTIONS_BURST_MAX + 5


async def test_a_kill_loses_nothing_that_was_acknowledged_and_a_retry_gets_the_same_acknowledgement(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    async with ingress(client) as device:
        await device.send(*(raw(event_id) for event_id in ids(300)))
        acknowledged = await device.receive(200)
        broker.kill()
    on_disk = ledger.rows(broker.data)
    assert {answer["event_id"] for answer in acknowledged} <= set(on_disk)
    again = await connect(broker_process(data=broker.data).url)
    async with ingress(again) as device:
        await device.send(*(raw(event_id) for event_id in ids(300)))
        answers = await device.receive(300)
    assert answers[:200] == [answer | {"duplicate": True} for answer in acknowledged]
    assert sorted(ledger.rows(broker.data)) == sorted(ids(300))


async def test_out_of_order_and_repeated_sending_gives_the_same_ledger_as_in_order(
    start_app: StartApp, connect: Connect, tmp_path: Any
) -> None:
    events = [raw(f"evt_{n}", ts=f"2026-02-16T23:10:{n:02}Z", payload={"n": n}) for n in range(40)]
    shuffled = events[::3] + events[::-1] + events[::7]
    found = []
    for name, sent in (("in-order", events), ("shuffled", shuffled)):
        app = await start_app({"data": str(tmp_path / name)})
        async with ingress(await connect(app.server.address)) as device:
            await device.send(*sent)
            await device.receive(len(sent))
        columns = "source_event_id, stream, type, envelope, source_emitted_at, correlation_id, process_state"
        found.append(sorted(await stored(app, columns), key=lambda row: row[4]))
    assert found[0] == found[1]

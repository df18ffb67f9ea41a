"""`WS /v1/publish`: frames in, acknowledgements out after the commit, and a producer that is slowed down."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from broker.app import App
from broker.front.line import Line
from broker.limits import REQUESTS_PER_FRAME_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import PATIENCE_SECONDS, Client, assert_error
from tests.support.events import AWKWARD_PAYLOADS, STREAM, body
from tests.support.writer import eventually, held_writer, stored

WINDOW = {"window": 10_000}


class Producer:
    """One publishing socket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, *frames: bytes) -> None:
        for frame in frames:
            await self.socket.send_str(frame.decode())

    async def receive(self, count: int = 1) -> list[dict[str, Any]]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [json.loads(await self.socket.receive_str()) for _ in range(count)]


@asynccontextmanager
async def publishing(client: Client) -> AsyncIterator[Producer]:
    async with client.session.ws_connect("v1/publish") as socket:
        producer = Producer(socket)
        assert await producer.receive() == [WINDOW]
        yield producer


def ids(count: int) -> list[str]:
    return [f"e-{number}" for number in range(1, count + 1)]


async def test_an_event_is_acknowledged_with_its_sequence(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        await producer.send(body("e-1"))
        assert await producer.receive() == [{"ack": "e-1", "seq": 1, "duplicate": False}]
    assert await stored(app) == ["e-1"]


async def test_pipelined_events_are_acknowledged_in_their_order(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        await producer.send(*(body(event_id) for event_id in ids(500)))
        answers = await producer.receive(500)
    assert [(answer["ack"], answer["seq"]) for answer in answers] == [(f"e-{n}", n) for n in range(1, 501)]


async def test_an_array_is_committed_together(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        commits = app.journal.health.commits
        await producer.send(b"[" + b",".join(body(event_id) for event_id in ids(100)) + b"]")
        answers = await producer.receive(100)
    assert [answer["seq"] for answer in answers] == list(range(1, 101))
    assert app.journal.health.commits == commits + 1


async def test_one_bad_request_of_an_array_is_one_error_and_the_rest_go_in(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        await producer.send(b"[" + b",".join([body("a"), b'{"to": 5}', body("b", ts="now"), body("c")]) + b"]")
        answers = await producer.receive(4)
    assert [answer["error"]["code"] for answer in answers[:2]] == ["invalid_request", "invalid_envelope"]
    assert [answer["ack"] for answer in answers[2:]] == ["a", "c"]
    assert await stored(app) == ["a", "c"]


async def test_an_array_has_at_most_as_many_requests_as_one_frame_may(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        await producer.send(b"[" + b",".join([b"1"] * REQUESTS_PER_FRAME_MAX) + b"]")
        answers = await producer.receive(REQUESTS_PER_FRAME_MAX)
        assert {answer["error"]["code"] for answer in answers} == {"invalid_request"}
        await producer.send(b"[" + b",".join([body("a"), *[b"1"] * REQUESTS_PER_FRAME_MAX]) + b"]", body("b"))
        refused, taken = await producer.receive(2)
    assert refused["error"]["code"] == "too_large"
    assert "the array has 5001 requests; at most 5000" in refused["error"]["message"]
    assert taken["ack"] == "b"
    assert await stored(app) == ["b"]


async def test_an_event_that_is_refused_at_the_gate_is_named_by_its_id_where_it_has_one(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app({"streams": {"perStreamCaps": {STREAM: {"rate": {"perSecond": 0.001, "burst": 1}}}}})
    async with publishing(await connect(app.server.address)) as producer:
        await producer.send(body("a"), body("b"), body("c", ts="now"), b'{"to": "x", "envelope": {"id": 5}}', b"{}")
        answers = await producer.receive(5)
        acks = [answer["ack"] for answer in answers if "ack" in answer]
        errors = [answer["error"] for answer in answers if "error" in answer]
    assert acks == ["a"]
    assert [(error["code"], error.get("id")) for error in errors] == [
        ("over_quota", "b"), ("invalid_envelope", "c"), ("invalid_envelope", None), ("invalid_request", None),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["v1/publish", "v1/ingress"])
async def test_a_producer_that_does_not_read_its_errors_is_not_read_either(
    path: str, app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting() -> int:
        (answers,) = app._publish._answers | app._ingress._answers
        return len(answers._frames)

    left = asyncio.Event()

    async def stuck(_line: Line) -> None:
        await left.wait()
        raise ConnectionResetError

    monkeypatch.setattr("broker.front.answers.PUBLISH_WINDOW", 5)
    monkeypatch.setattr(Line, "write_now", lambda _line, _frames: False)
    monkeypatch.setattr(Line, "left", stuck)
    async with client.session.ws_connect(path) as socket:
        for frame in ["no json", "{}"] * 50:
            await socket.send_str(frame)
        await eventually(lambda: waiting() >= 5)
        assert (await client.get("livez")).status == 200
        assert waiting() == 5
        left.set()


@pytest.mark.parametrize("path", ["v1/publish", "v1/ingress"])
async def test_a_request_that_is_no_websocket_is_refused_in_the_one_shape(path: str, app: App, client: Client) -> None:
    assert "is a WebSocket" in assert_error(await client.get(path), 400, "invalid_request")
    assert (app._publish.open_sockets, app._ingress.open_sockets) == (0, 0)


async def test_a_duplicate_and_a_conflict_are_told_as_over_http(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        await producer.send(body("a"), body("a"), body("a", payload=5))
        assert await producer.receive(3) == [
            {"ack": "a", "seq": 1, "duplicate": False},
            {"ack": "a", "seq": 1, "duplicate": True},
            {"ack": "a", "seq": 1, "duplicate": True, "payload_conflict": True},
        ]


async def test_envelopes_are_stored_byte_for_byte(app: App, client: Client) -> None:
    sent = [
        b'{"id":"e-%d","ts":"2025-10-18T19:55:00Z", "to":"%b","type":"t","payload":%b}' % (n, STREAM.encode(), payload)
        for n, payload in enumerate(AWKWARD_PAYLOADS)
    ]
    async with publishing(client) as producer:
        await producer.send(*(b'{"to":"%b","envelope":%b}' % (STREAM.encode(), envelope) for envelope in sent))
        await producer.receive(len(sent))
    assert await stored(app, "envelope") == sent


@pytest.mark.parametrize("frame", ["", "no json", "[]", "[", '"text"', "{}", "5", "[[" * 40 + "]]" * 40])
async def test_a_bad_frame_gets_an_error_and_the_socket_lives(app: App, client: Client, frame: str) -> None:
    async with publishing(client) as producer:
        await producer.socket.send_str(frame)
        (answer,) = await producer.receive()
        assert answer["error"]["code"] == "invalid_request"
        await producer.send(body("e-1"))
        assert (await producer.receive())[0]["ack"] == "e-1"


async def test_a_binary_frame_gets_an_error_and_the_socket_lives(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        await producer.socket.send_bytes(body("e-1"))
        assert (await producer.receive())[0]["error"]["message"] == "frames are JSON text, not binary"
        await producer.send(body("e-1"))
        assert (await producer.receive())[0]["ack"] == "e-1"


async def test_a_full_queue_pauses_the_socket_and_loses_nothing(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"journal": {"queueMax": 10}})
    async with publishing(await connect(app.server.address)) as producer:
        async with held_writer(app):
            await producer.send(*(body(event_id) for event_id in ids(200)))
            await eventually(lambda: app.journal.health.saturations > 0)
            assert app.journal.queued == 10
        assert [answer["ack"] for answer in await producer.receive(200)] == ids(200)
    assert await stored(app) == ids(200)


async def test_past_the_window_the_socket_is_not_read(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing(client) as producer:
        monkeypatch.setattr("broker.front.answers.PUBLISH_WINDOW", 5)
        async with held_writer(app):
            await producer.send(*(body(event_id) for event_id in ids(50)))
            await eventually(lambda: app.journal.queued == 5)
        assert [answer["ack"] for answer in await producer.receive(50)] == ids(50)


async def test_a_journal_that_is_stalled_is_told_for_each_event(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        app.journal.health.retrying("the file is locked", critical=True)
        await producer.send(body("a"))
        (answer,) = await producer.receive()
        assert (answer["error"]["code"], answer["error"]["id"]) == ("storage_unavailable", "a")
        app.journal.health.committed(1, 0.001)
        await producer.send(body("a"))
        assert (await producer.receive())[0]["ack"] == "a"


async def test_a_token_without_the_scope_gets_an_error_for_its_event(start_app: StartApp, connect: Connect) -> None:
    token = {"token": "secret", "name": "reader", "scopes": ["streams:other:enqueue"]}
    app = await start_app({"auth": {"tokens": [token]}})
    client = await connect(app.server.address)
    headers = {"Authorization": "Bearer secret"}
    async with client.session.ws_connect("v1/publish", headers=headers) as socket:
        producer = Producer(socket)
        await producer.send(body("a"), body("b", "other"))
        window, refused, taken = await producer.receive(3)
    assert (window, refused["error"]["code"], taken["ack"]) == (WINDOW, "forbidden", "b")


async def test_a_drain_answers_what_was_received_and_then_says_goodbye(app: App, client: Client) -> None:
    async with publishing(client) as producer:
        async with held_writer(app) as release:
            await producer.send(*(body(event_id) for event_id in ids(20)))
            await eventually(lambda: app.journal.queued == 20)
            draining = asyncio.create_task(app.drain())
            await eventually(lambda: app.gate.draining)
            release.set()
        assert [answer["ack"] for answer in await producer.receive(20)] == ids(20)
        assert (await producer.socket.receive()).data == aiohttp.WSCloseCode.GOING_AWAY
        await draining


async def test_a_producer_that_goes_away_leaves_its_events_and_nothing_else(app: App, client: Client) -> None:
    async with held_writer(app), publishing(client) as producer:
        await producer.send(*(body(event_id) for event_id in ids(20)))
        await eventually(lambda: app.journal.queued == 20)
    assert await stored(app) == ids(20)

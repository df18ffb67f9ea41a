"""Skyra over gRPC, on a real channel: the same rules, answers and order as over HTTP and WebSocket (000)."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from broker import errors
from broker.app import App
from broker.clock import ManualClock
from broker.front.grpc_codes import status_code
from broker.limits import ARRAY_EVENTS_MAX, ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX, PUBLISH_WINDOW
from tests.conftest import Connect, StartApp, StartBroker
from tests.support import golden, ledger
from tests.support.metrics import scrape
from tests.support.skyra import raw
from tests.support.skyra_grpc import ON, GrpcClient, dial, frame, meaning, status_of
from tests.support.writer import eventually, held_writer, stored

UNLIMITED = [("grpc.max_send_message_length", -1)]


pytestmark = pytest.mark.usefixtures("grpc_is_let_go_of")


@pytest.fixture
async def app(start_app: StartApp) -> App:
    return await start_app(ON)


@pytest.fixture
async def device(app: App) -> AsyncIterator[GrpcClient]:
    async with dial(address(app), UNLIMITED) as client:
        yield client


def address(app: App) -> str:
    assert app.grpc is not None
    return app.grpc.address


def ids(count: int) -> list[str]:
    return [f"evt_{number}" for number in range(1, count + 1)]


@pytest.mark.parametrize("streamed", [False, True], ids=["store", "ingress"])
@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in golden.files("skyra")])
async def test_every_golden_exchange_has_the_same_meaning_over_grpc(
    path: Path, streamed: bool, start_app: StartApp
) -> None:
    told, clock = golden.load(path), ManualClock()
    app = await start_app(told.get("config", {}) | ON, clock=clock)
    async with dial(address(app)) as client:
        for exchange in told["exchanges"]:
            clock.set_wall_us(int(datetime.fromisoformat(exchange["at"]).timestamp()) * 1_000_000)
            body = exchange.get("body")
            bodies = body if isinstance(body, list) else [body]
            events = (
                [exchange["body_text"].encode()] if body is None else [json.dumps(each).encode() for each in bodies]
            )
            token = exchange.get("headers", {}).get("Authorization", "").removeprefix("Bearer ") or None
            if streamed:
                async with client.ingress(token) as stream:
                    await stream.call.write(frame(*events))
                    answers = await stream.receive(len(events))
            else:
                answers = await client.store(*events, token=token)
            assert answers == (exchange["answer"] if isinstance(body, list) else [exchange["answer"]])
    assert len(await stored(app)) == told["stored"]
    assert len(await golden.rejections(app)) == told["rejections"]


async def test_pipelined_events_are_acknowledged_in_order_and_the_stream_ends_when_all_are(
    app: App, device: GrpcClient
) -> None:
    async with device.ingress() as stream:
        assert dict(await stream.call.initial_metadata())["courier-window"] == str(PUBLISH_WINDOW)
        await stream.send(*(raw(event_id) for event_id in ids(500)))
        await stream.call.done_writing()
        answers = await stream.receive(500)
        assert await stream.code() is grpc.StatusCode.OK
    assert [answer["event_id"] for answer in answers] == ids(500) == await stored(app)
    assert {answer["status"] for answer in answers} == {"stored"}


async def test_no_acknowledgement_leaves_before_the_commit_and_a_duplicate_has_the_time_of_the_first(
    app: App, device: GrpcClient
) -> None:
    async with device.ingress() as stream:
        async with held_writer(app) as release:
            await stream.send(raw("evt_1"), raw("evt_1"))
            await eventually(lambda: app.journal.queued == 2)
            waiting = asyncio.create_task(stream.receive(2))
            await asyncio.sleep(0)
            assert not waiting.done()
            release.set()
        first, second = await waiting
    assert second == first | {"duplicate": True}
    (conflicting,) = await device.store(raw("evt_1", payload={"other": 1}))
    assert conflicting == second | {"payload_conflict": True}


async def test_refusals_keep_their_place_and_what_is_no_frame_leaves_a_row_and_the_stream_open(
    app: App, device: GrpcClient
) -> None:
    call: Any = device.channel.stream_stream("/courier.skyra.v1.Skyra/Ingress")()  # bytes, as they are
    sent = [frame(raw("a")), frame(b"{"), frame(raw("b"), raw("c", type=5), raw("d")), frame(), frame(raw("e"))]
    sent += [frame(b"\xff"), frame(b"[" * 100), frame(b"[%b]" % raw("f")), frame(raw("g" * 300))]
    for each in sent:
        await call.write(each.SerializeToString())
    await call.write(b"\x0a\xff\xff")
    await call.write(frame(raw("z")).SerializeToString())
    await call.done_writing()
    answers = [meaning(_ack(each)) async for each in call]
    assert [(answer.get("event_id"), answer["status"]) for answer in answers] == [
        ("a", "stored"), (None, "rejected"), ("b", "stored"), ("c", "rejected"), ("d", "stored"), (None, "rejected"),
        ("e", "stored"), *[(None, "rejected")] * 5, ("z", "stored")]  # fmt: skip
    assert await stored(app) == ["a", "b", "d", "e", "z"]
    kept = await golden.rejections(app)
    assert len(kept) == 8
    assert kept[2] == kept[-1] == "invalid_request"


def _ack(raw_ack: bytes) -> Any:
    from broker.front.skyra_v1 import skyra_pb2

    return skyra_pb2.Ack.FromString(raw_ack)


async def test_an_event_over_two_transports_is_one_and_its_bytes_are_kept(
    app: App, device: GrpcClient, connect: Connect
) -> None:
    envelope = raw("a", payload={"n": 10**30}).replace(b", ", b" ,\t")
    (first,) = await device.store(envelope)
    client = await connect(app.server.address)
    async with client.session.ws_connect("v1/ingress") as socket:
        await socket.receive()
        await socket.send_str(envelope.decode())
        assert json.loads(await socket.receive_str()) == first | {"duplicate": True}
    assert [bytes(row) for row in await stored(app, "envelope")] == [envelope]


async def test_the_bounds_of_a_frame_hold(app: App, device: GrpcClient) -> None:
    bare = len(raw("a", payload={"x": ""}))
    (fits,) = await device.store(raw("a", payload={"x": "y" * (ENVELOPE_BYTES_MAX - bare)}))
    (too_large,) = await device.store(raw("b", payload={"x": "y" * (ENVELOPE_BYTES_MAX - bare + 1)}))
    assert (fits["status"], too_large["error"]["code"]) == ("stored", "too_large")
    assert len(await device.store(*[b"{}"] * ARRAY_EVENTS_MAX)) == ARRAY_EVENTS_MAX
    (too_many,) = await device.store(*[b"{}"] * (ARRAY_EVENTS_MAX + 1))
    assert too_many["error"]["code"] == "too_large"
    past = device.stub.Store(frame(b"x" * FRAME_BYTES_MAX))
    assert await status_of(past) is grpc.StatusCode.RESOURCE_EXHAUSTED
    packed = device.stub.Store(frame(raw("c")), compression=grpc.Compression.Gzip)
    assert await status_of(packed) is grpc.StatusCode.UNIMPLEMENTED
    assert await stored(app) == ["a"]


async def test_past_its_deadline_a_call_has_no_acknowledgement_and_a_retry_finds_what_was_committed(
    app: App, device: GrpcClient
) -> None:
    async with held_writer(app):
        call = device.stub.Store(frame(raw("a")), timeout=0.2)
        async with device.ingress(within=0.2) as stream:
            await stream.send(raw("b"))
            assert await stream.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await status_of(call) is grpc.StatusCode.DEADLINE_EXCEEDED
        await eventually(lambda: app.grpc is not None and app.grpc.ingress.open_streams == 0)
    again = await device.store(raw("a"), raw("b"))
    assert [(answer["status"], answer.get("duplicate")) for answer in again] == [("stored", True)] * 2


async def test_past_the_window_the_stream_is_not_read_and_nothing_is_lost(
    app: App, device: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.front.answers.PUBLISH_WINDOW", 5)
    async with device.ingress() as stream:
        async with held_writer(app):
            sending = asyncio.create_task(stream.send(*(raw(event_id) for event_id in ids(200))))
            await eventually(lambda: app.journal.queued == 5)
        await sending
        assert [answer["event_id"] for answer in await stream.receive(200)] == ids(200)


async def test_a_client_that_reads_no_answers_is_read_no_further_and_loses_nothing(
    app: App, device: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.front.answers.PUBLISH_WINDOW", 50)
    big = {"text": "x" * 20_000}
    async with device.ingress() as stream:
        assert app.grpc is not None
        await stream.call.initial_metadata()
        (open_stream,) = app.grpc.ingress._streams
        sending = asyncio.create_task(stream.send(*(raw(event_id, payload=big, type=5) for event_id in ids(2000))))
        most = 0

        def stuck() -> bool:
            nonlocal most
            waiting = len(open_stream.answers._frames) + open_stream.answers._unanswered
            most = max(most, waiting)
            return sending.done() or waiting >= 50

        await eventually(stuck)
        assert most <= 50
        assert not sending.done()
        answers = await stream.receive(2000)
        await sending
    assert [answer["event_id"] for answer in answers] == ids(2000)


async def test_a_drain_answers_what_was_received_and_ends_the_stream_as_unavailable(
    app: App, device: GrpcClient
) -> None:
    async with device.ingress() as stream:
        async with held_writer(app):
            await stream.send(*(raw(event_id) for event_id in ids(10)))
            stored_call = asyncio.create_task(device.store(raw("unary")))
            await eventually(lambda: app.journal.queued == 11)
            draining = asyncio.create_task(app.drain())
        assert [answer["event_id"] for answer in await stream.receive(10)] == ids(10)
        assert (await stored_call)[0]["status"] == "stored"
        assert await stream.code() is grpc.StatusCode.UNAVAILABLE
        assert dict(await stream.call.trailing_metadata())["courier-error"] == "draining"
        await draining


async def test_a_kill_loses_nothing_that_was_acknowledged(broker_process: StartBroker) -> None:
    broker = broker_process(config=ON)
    line = broker._line()
    assert line.startswith("events of devices over gRPC on 127.0.0.1:")
    async with dial(line.rpartition(" ")[2]) as client, client.ingress() as stream:
        await stream.send(*(raw(event_id) for event_id in ids(300)))
        acknowledged = await stream.receive(200)
        broker.kill()
        assert await stream.code() is grpc.StatusCode.UNAVAILABLE
    assert {answer["event_id"] for answer in acknowledged} <= set(ledger.rows(broker.data))


def test_a_broker_with_grpc_ends_in_order(broker_process: StartBroker) -> None:
    broker = broker_process(config=ON)
    assert broker.terminate_and_wait() == 0
    assert not any("rror" in line for line in broker.stderr_lines), broker.stderr_lines


async def test_the_figures_of_grpc_are_beside_those_of_the_sockets(
    app: App, device: GrpcClient, connect: Connect
) -> None:
    client = await connect(app.server.address)
    await device.store(raw("a"))
    async with device.ingress() as stream:
        await stream.send(raw("b"))
        await stream.receive()
        found = await scrape(client)
    assert found("courier_grpc_streams") == 1
    assert found("courier_grpc_calls_total", method="Store", code="OK") == 1


def every_error(kind: type[errors.CourierError] = errors.CourierError) -> list[type[errors.CourierError]]:
    return [kind, *(found for each in kind.__subclasses__() for found in every_error(each))]


def test_every_error_but_the_brokers_own_has_a_status_of_its_kind() -> None:
    internal = {each for each in every_error() if each is not errors.ConfigError and _code(each) == "INTERNAL"}
    assert internal == {errors.CourierError}
    retryable = {_code(each) for each in every_error() if each.retryable}
    assert retryable == {"ABORTED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}


def _code(kind: type[errors.CourierError]) -> str:
    error = kind(["x"]) if kind is errors.ConfigError else kind("x")  # type: ignore[arg-type]
    return status_code(error).name

"""Peers at their worst: killed brokers, many sockets, readers that do not read, dead lines, frames that are none."""

import asyncio
import json
import resource
import struct
from collections.abc import Iterator

import aiohttp
import pytest

from broker.app import App
from broker.front.sockets import _TRANSPORT
from broker.limits import ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX, JSON_DEPTH_MAX, WRITE_BYTES_MAX
from tests.conftest import Connect, StartBroker
from tests.support.client import PATIENCE_SECONDS, Client, Subscriber
from tests.support.events import STREAM, body
from tests.support.raw import deaf_subscriber, websocket
from tests.support.writer import eventually

IN_FLIGHT = 10_000
SOCKETS = 1_000
ARRAY = 500


async def publish(client: Client, first: int, count: int, **fields: object) -> None:
    """Publish events in arrays, and wait until all are acknowledged."""
    async with client.session.ws_connect("v1/publish") as socket:
        assert "window" in await socket.receive_json()
        for at in range(first, first + count, ARRAY):
            requests = [body(f"e-{number}", **fields).decode() for number in range(at, min(at + ARRAY, first + count))]
            await socket.send_str(f"[{','.join(requests)}]")
        for _ in range(count):
            assert "ack" in json.loads(await socket.receive_str())


async def test_a_kill_in_the_middle_of_ten_thousand_events_in_flight_loses_none(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    await publish(client, 0, IN_FLIGHT)
    async with client.subscribe() as subscriber:
        await subscriber.credit(IN_FLIGHT)
        held = await subscriber.ids(IN_FLIGHT)
        assert sorted(held) == sorted(f"e-{number}" for number in range(IN_FLIGHT))
        acked = set(held[: IN_FLIGHT // 2])
        await subscriber.send(ack=held[: IN_FLIGHT // 2])
        broker.kill()
    client = await connect(broker_process().url)
    async with client.subscribe() as subscriber:
        await subscriber.credit(IN_FLIGHT)
        missing = set(held) - acked
        again: list[str] = []
        while missing:
            again += await subscriber.ids(1)
            missing.discard(again[-1])
        assert len(again) == len(set(again)), "each comes once"


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for the sockets of both sides."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * SOCKETS
    if hard < wanted:
        pytest.skip(f"this machine allows {hard} open files, and {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
async def test_a_thousand_subscribers_on_a_thousand_streams_each_get_their_own(broker_process: StartBroker) -> None:
    broker = broker_process()
    names = [f"streams/{number}" for number in range(SOCKETS)]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(base_url=f"{broker.url}/", connector=connector) as session:
        sockets = [await session.ws_connect("v1/subscribe", params={"stream": name}) for name in names]
        subscribers = [Subscriber(socket) for socket in sockets]
        for subscriber in subscribers:
            await subscriber.credit(2)
        for round_number in range(2):
            lines = [body(f"{round_number}", name) for name in names]
            headers = {"Content-Type": "application/x-ndjson"}
            async with session.post("v1/enqueue", data=b"\n".join(lines), headers=headers) as answer:
                assert answer.status == 200
            for name, subscriber in zip(names, subscribers, strict=True):
                delivery = await subscriber.delivery()
                assert (delivery["deliver"]["to"], delivery["deliver"]["id"]) == (name, f"{round_number}")
                await subscriber.ack(f"{round_number}")
        await asyncio.gather(*(socket.close() for socket in sockets))


async def test_a_reader_that_does_not_read_costs_one_write_and_disturbs_nobody(app: App, client: Client) -> None:
    size = 100_000
    for number in range(100):
        await client.enqueue(f"e-{number}", payload="x" * size)
    async with deaf_subscriber(app, 100):
        await eventually(lambda: app.registry.find(STREAM).in_flight == 100)
        (transport,) = (socket[_TRANSPORT] for socket in app._subscribe._sockets._open)
        await eventually(lambda: transport.get_write_buffer_size() > 0)
        assert transport.get_write_buffer_size() < WRITE_BYTES_MAX + ENVELOPE_BYTES_MAX
        async with client.subscribe("another/stream") as subscriber:
            await subscriber.credit(1)
            await client.enqueue("live", "another/stream")
            assert await subscriber.ids(1) == ["live"]
    async with client.subscribe() as subscriber:
        await subscriber.credit(100)
        deliveries = [await subscriber.delivery() for _ in range(100)]
    assert [each["deliver"]["id"] for each in deliveries] == [f"e-{number}" for number in range(100)]
    attempts = [each["attempt"] for each in deliveries]
    assert attempts == sorted(attempts, reverse=True), "those that were sent come first, and count as attempts"
    assert attempts[-1] == 1, "what was never sent does not"


async def test_a_reader_that_reads_nothing_for_too_long_is_cut_off(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.front.line.STALLED_READER_MS_MAX", 100)
    for number in range(100):
        await client.enqueue(f"e-{number}", payload="x" * 100_000)
    async with deaf_subscriber(app, 100):
        await eventually(lambda: app.registry.find(STREAM).in_flight == 100)
        await eventually(lambda: len(app.registry.find(STREAM).credits) == 0)
        stream = app.registry.find(STREAM)
        assert (stream.in_flight, stream.pending) == (0, 100)


async def test_a_line_that_is_dead_gives_its_events_back_at_once_in_their_order(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.front.sockets.HEARTBEAT_SECONDS", 0.2)
    await client.enqueue_all("a", "b", "c")
    async with websocket(app) as (reader, writer):
        writer.write(masked(b'{"credit":3}'))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b'"seq":3}' not in await reader.read(1000):
                pass
        assert app.registry.find(STREAM).in_flight == 3
        monkeypatch.undo()
        async with client.subscribe() as subscriber:
            await subscriber.credit(3)
            assert await subscriber.ids(3) == ["a", "b", "c"]  # the dead line reads pings, and never answers


def masked(payload: bytes, opcode: int = 1) -> bytes:
    """A frame of a client, masked with zeros."""
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | opcode, 0x80 | size])
    elif size < 65_536:
        head = bytes([0x80 | opcode, 0x80 | 126]) + struct.pack(">H", size)
    else:
        head = bytes([0x80 | opcode, 0x80 | 127]) + struct.pack(">Q", size)
    return head + bytes(4) + payload


DEEP = b'{"to":"s","envelope":' + b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1) + b"}"

BAD_FRAMES = {
    "binary": (masked(b"{}", opcode=2), "invalid_request"),
    "not JSON": (masked(b"nonsense"), "invalid_request"),
    "wrong types": (masked(b'{"credit":"many","to":7,"envelope":[]}'), "invalid_request"),
    "deep nesting": (masked(DEEP), "invalid_request"),
    "invalid UTF-8": (masked(b'{"to":"\xff"}'), 1007),
    "ten megabytes": (masked(b"x" * 10_000_000), 1009),
    "one byte too many": (masked(b"x" * (FRAME_BYTES_MAX + 1)), 1009),
    "not masked": (b"\x81\x02{}", None),
    "reserved opcode": (masked(b"{}", opcode=3), 1002),
    "fragmented ping": (b"\x09\x80" + bytes(4), 1002),
}


@pytest.mark.parametrize("path", [f"/v1/subscribe?stream={STREAM}", "/v1/publish"])
@pytest.mark.parametrize("kind", BAD_FRAMES)
async def test_a_bad_frame_gets_its_answer_and_the_next_client_notices_nothing(
    app: App, client: Client, path: str, kind: str
) -> None:
    frame, expected = BAD_FRAMES[kind]
    async with websocket(app, path) as (reader, writer):
        writer.write(frame)
        came = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            if isinstance(expected, str):
                while f'"code":"{expected}"'.encode() not in came:
                    came += await reader.read(10_000)
            elif expected is not None:
                while expected not in close_codes(came):
                    chunk = await reader.read(10_000)
                    assert chunk, came
                    came += chunk
        async with client.subscribe("another/stream") as subscriber:
            await subscriber.credit(1)
            assert (await client.enqueue("e-1", "another/stream"))["duplicate"] is False
            assert await subscriber.ids(1) == ["e-1"]


def close_codes(came: bytes) -> list[int]:
    """The codes of the close frames in what a server sent."""
    at, codes = 0, []
    while at + 2 <= len(came):
        opcode, size, head = came[at] & 0x0F, came[at + 1], 2
        if size == 126:
            size, head = int.from_bytes(came[at + 2 : at + 4]), 4
        if opcode == 8 and len(came) >= at + head + 2:
            codes.append(int.from_bytes(came[at + head : at + head + 2]))
        at += head + size
    return codes

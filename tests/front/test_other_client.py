"""Both WebSocket endpoints, spoken to by a client that shares no code with the server."""

import asyncio
import json
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from broker.app import App
from tests.support.events import STREAM, body
from tests.support.writer import stored

PATIENCE_SECONDS = 20.0
EVENTS = 300


async def frames(socket: ClientConnection, count: int) -> list[Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [json.loads(await socket.recv()) for _ in range(count)]


def url(app: App, path: str) -> str:
    return f"ws://127.0.0.1:{app.server.port}/v1/{path}"


async def test_events_of_every_length_class_go_in_and_come_out(app: App) -> None:
    sizes = [0, 1, 60, 100, 126, 127, 65_000, 65_536, 900_000]
    async with connect(url(app, "publish"), max_size=None) as producer:
        assert await frames(producer, 1) == [{"window": 10_000}]
        for size in sizes:
            await producer.send(body(f"e-{size}", payload="x" * size).decode())
        assert [each["ack"] for each in await frames(producer, len(sizes))] == [f"e-{size}" for size in sizes]
    async with connect(url(app, f"subscribe?stream={STREAM}"), max_size=None) as consumer:
        await consumer.send(json.dumps({"credit": len(sizes)}))
        deliveries = await frames(consumer, len(sizes))
        assert [len(each["deliver"]["payload"]) for each in deliveries] == sizes
        await consumer.send(json.dumps({"ack": [each["seq"] for each in deliveries]}))
        await consumer.send(json.dumps({"ack": "nothing"}))
        assert (await frames(consumer, 1))[0]["error"]["id"] == "nothing"
    assert await stored(app, "state") == [1] * len(sizes)


async def test_batches_pings_and_the_close_keep_their_order(app: App) -> None:
    async with connect(url(app, f"subscribe?stream={STREAM}&batch=50")) as consumer:
        await consumer.send(json.dumps({"credit": EVENTS}))
        async with connect(url(app, "publish")) as producer:
            for number in range(EVENTS):
                await producer.send(body(f"e-{number}").decode())
            pongs = [await consumer.ping() for _ in range(5)]
            found: list[int] = []
            while len(found) < EVENTS:
                (frame,) = await frames(consumer, 1)
                assert 1 <= len(frame["deliver"]) <= 50
                found += (each["seq"] for each in frame["deliver"])
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*pongs)
            await frames(producer, EVENTS + 1)
    assert found == list(range(1, EVENTS + 1))
    assert consumer.close_code == 1000

"""Streams of different kinds over real sockets: in memory, of a pattern, with partition keys."""

import pytest

from broker.streams.entry import MEMORY_SEQ_FIRST
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import body
from tests.support.writer import stored

MEMORY = {"streams": {"perStreamCaps": {"memory/**": {"durability": "memory", "maxDepth": 2}}}}


async def test_a_stream_in_memory_is_acknowledged_delivered_and_bounded(start_app: StartApp, connect: Connect) -> None:
    app = await start_app(MEMORY)
    client = await connect(app.server.address)
    for number in range(2):
        answer = await client.enqueue(f"e-{number}", "memory/s")
        assert answer == {"id": f"e-{number}", "seq": MEMORY_SEQ_FIRST + number, "duplicate": False}
    assert (await client.enqueue("e-0", "memory/s"))["duplicate"] is True
    refused = await client.post(body("e-2", "memory/s"))
    assert_error(refused, 429, "over_quota", retryable=True, stream="memory/s")
    assert refused.headers["Retry-After"] == "1"
    async with client.subscribe("memory/s") as subscriber:
        await subscriber.credit(2)
        for number in range(2):
            delivery = await subscriber.delivery()
            assert (delivery["deliver"]["id"], delivery["seq"]) == (f"e-{number}", MEMORY_SEQ_FIRST + number)
            await subscriber.ack(f"e-{number}")
        await subscriber.settled()
    assert await stored(app, "seq") == []


@pytest.mark.parametrize("pattern", ["agents/*/inbox", "agents/**"])
async def test_one_socket_takes_from_all_streams_of_a_pattern(client: Client, pattern: str) -> None:
    await client.enqueue("e-1", "agents/Ada/inbox")
    async with client.subscribe(pattern) as subscriber:
        await subscriber.credit(10)
        await client.enqueue("e-1", "agents/Jen/inbox")
        await client.enqueue("e-3", "elsewhere")
        deliveries = [await subscriber.delivery() for _ in range(2)]
        assert [each["deliver"]["to"] for each in deliveries] == ["agents/Ada/inbox", "agents/Jen/inbox"]
        await subscriber.ack("e-1")
        assert (await subscriber.error())["code"] == "invalid_request"
        await subscriber.send(ack=[each["seq"] for each in deliveries])
        await subscriber.ack("e-1")
        assert (await subscriber.error())["code"] == "lease_not_held"


async def test_events_of_one_partition_key_come_one_at_a_time_also_from_the_ledger(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app()
    client = await connect(app.server.address)
    for number in range(3):
        await client.enqueue(f"e-{number}", partitionKey="room-7")
    await app.drain()
    client = await connect((await start_app()).server.address)
    async with client.subscribe() as subscriber:
        await subscriber.credit(10)
        for number in range(3):
            assert await subscriber.ids(1) == [f"e-{number}"]
            await subscriber.settled()
            await subscriber.ack(f"e-{number}")

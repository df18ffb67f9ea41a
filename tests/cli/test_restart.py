"""What comes back after the process was killed."""

import asyncio
from contextlib import AsyncExitStack

import aiohttp

from tests.conftest import Connect, StartBroker
from tests.support import ledger
from tests.support.client import Client
from tests.support.events import STREAM


def names(first: int, last: int) -> list[str]:
    return [f"e-{number:03}" for number in range(first, last + 1)]


async def on_disk(client: Client, marker: str) -> None:
    """Everything that was acked before is on disk now: its state change rides along with the next commit."""
    await client.enqueue(marker, "another/stream")


async def test_unfinished_events_come_back_in_order(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    await client.enqueue_all(*names(1, 6))
    async with client.subscribe() as subscriber:
        await subscriber.credit(3)
        assert await subscriber.ids(3) == names(1, 3)
        broker.kill()
    successor = broker_process()
    client = await connect(successor.url)
    async with client.subscribe() as subscriber:
        await subscriber.credit(10)
        assert await subscriber.ids(6) == names(1, 6)
        assert await client.enqueue("e-007") == {"id": "e-007", "seq": 7, "duplicate": False}
        assert await subscriber.ids(1) == ["e-007"]
        await subscriber.settled()


async def test_what_was_acked_stays_done_once_that_is_on_disk(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    await client.enqueue_all(*names(1, 5))
    async with client.subscribe() as subscriber:
        await subscriber.credit(4)
        assert await subscriber.ids(4) == names(1, 4)
        await subscriber.ack("e-002", "e-004")
        await subscriber.settled()
        await on_disk(client, "marker")
        broker.kill()
    assert ledger.rows(broker.data, where="state = 1") == ["e-002", "e-004"]
    client = await connect(broker_process().url)
    async with client.subscribe() as subscriber:
        await subscriber.credit(10)
        assert await subscriber.ids(3) == ["e-001", "e-003", "e-005"]
        await subscriber.settled()


async def test_a_dead_letter_stays_dead(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process(config={"streams": {"maxDeliveries": 1}})
    client = await connect(broker.url)
    await client.enqueue_all(*names(1, 2))
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        assert await subscriber.ids(1) == ["e-001"]
        await subscriber.send(nack="e-001")
        await subscriber.settled()
        await on_disk(client, "marker")
        broker.kill()
    assert ledger.rows(broker.data, where="state = 2") == ["e-001"]
    client = await connect(broker_process().url)
    async with client.subscribe() as subscriber:
        await subscriber.credit(10)
        assert await subscriber.ids(1) == ["e-002"]
        await subscriber.settled()


async def test_failed_deliveries_are_counted_on_over_a_restart(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process(config={"streams": {"maxDeliveries": 3}})
    client = await connect(broker.url)
    await client.enqueue_all(*names(1, 4))
    async with client.subscribe() as subscriber:
        await subscriber.credit(3)
        assert await subscriber.ids(3) == names(1, 3)
        await subscriber.send(nack="e-001")
        await subscriber.send(nack="e-002", delayMs=60_000)
        await subscriber.settled()
        assert await asyncio.to_thread(broker.terminate_and_wait) == 0
    assert ledger.rows(broker.data, "process_attempts, process_first_attempt_at IS NULL") == [
        (1, False), (1, False), (1, False), (0, True),
    ]  # fmt: skip
    successor = broker_process(config={"streams": {"maxDeliveries": 3}})
    client = await connect(successor.url)
    async with client.subscribe() as subscriber:
        await subscriber.credit(4)
        deliveries = [await subscriber.delivery() for _ in range(4)]
        assert [(each["seq"], each["attempt"]) for each in deliveries] == [(1, 2), (2, 2), (3, 2), (4, 1)]
        await subscriber.send(nack=1)
        await subscriber.credit(1)
        assert (await subscriber.delivery())["attempt"] == 3
        await subscriber.send(nack=1)
        await subscriber.ack("e-002")
        await subscriber.settled()
        await on_disk(client, "marker")
        letter = (await client.get("v1/dead-letters/1")).body
    assert (letter["attempts"], letter["reason"]) == (3, "refused by its consumer; 3 deliveries, none acknowledged")
    first = ledger.rows(broker.data, "process_first_attempt_at < state_changed_at", where="seq <= 2")
    assert first == [1, 1]


async def test_a_stop_does_not_hand_events_round_among_those_who_are_leaving(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process(config={"streams": {"maxDeliveries": 3}})
    client = await connect(broker.url)
    async with AsyncExitStack() as open_sockets:
        subscribers = [await open_sockets.enter_async_context(client.subscribe()) for _ in range(12)]
        for subscriber in subscribers:
            await subscriber.credit(100)
            await subscriber.settled()
        await client.enqueue_all(*names(1, 24))
        assert sorted([each for one in subscribers for each in await one.ids(2)]) == names(1, 24)
        assert await asyncio.to_thread(broker.terminate_and_wait) == 0
    assert ledger.rows(broker.data, "state, process_attempts") == [(0, 1)] * 24


async def test_identities_are_remembered(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    await client.enqueue("e-001", payload=1)
    broker.kill()
    client = await connect(broker_process().url)
    assert await client.enqueue("e-001", payload=1) == {"id": "e-001", "seq": 1, "duplicate": True}
    assert (await client.enqueue("e-001", payload=2))["payload_conflict"] is True
    assert (await client.enqueue("e-002"))["seq"] == 2


async def test_everything_acknowledged_survives_a_kill_under_load(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    acknowledged: list[str] = []

    async def produce(name: int) -> None:
        for number in range(100_000):
            await client.enqueue(f"{name}-{number}", f"load/{name}")
            acknowledged.append(f"{name}-{number}")
            if len(acknowledged) == 200:
                broker.process.kill()

    results = await asyncio.gather(*(produce(name) for name in range(8)), return_exceptions=True)
    assert all(isinstance(result, aiohttp.ClientConnectionError) for result in results), results
    await asyncio.to_thread(broker.wait)
    stored = ledger.rows(broker.data)
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))
    client = await connect(broker_process().url)
    for name in range(8):
        expected = [event_id for event_id in stored if event_id.startswith(f"{name}-")]
        async with client.subscribe(f"load/{name}") as subscriber:
            await subscriber.credit(len(expected))
            assert await subscriber.ids(len(expected)) == expected


async def test_streams_without_unfinished_events_start_empty(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    await client.enqueue("e-001")
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        await subscriber.ack(*await subscriber.ids(1))
        await subscriber.settled()
    assert await asyncio.to_thread(broker.terminate_and_wait) == 0
    successor = broker_process()
    assert any("recovered: 0 pending" in line for line in successor.stderr_lines)
    client = await connect(successor.url)
    async with client.subscribe(STREAM) as subscriber:
        await subscriber.credit(1)
        await subscriber.settled()
        await client.enqueue("e-002")
        assert await subscriber.ids(1) == ["e-002"]

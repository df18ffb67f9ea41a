"""A stream that is longer than its window, on a real journal."""

import asyncio

import pytest

from broker.app import App
from tests.conftest import Connect, StartApp
from tests.support.client import Client, Subscriber
from tests.support.events import STREAM

WINDOW = 8


@pytest.fixture(autouse=True)
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.streams.stream.WINDOW_MAX", WINDOW)


def names(first: int, last: int) -> list[str]:
    return [f"e-{number:03}" for number in range(first, last + 1)]


async def enqueue_at_once(client: Client, event_ids: list[str]) -> None:
    """Enqueue in the order of the ids, a few at a time, so that commits and pages meet."""
    for start in range(0, len(event_ids), 5):
        for event_id in event_ids[start : start + 5]:
            await client.enqueue(event_id)


async def consumed(subscriber: Subscriber, count: int) -> list[str]:
    """Take and ack so many events; credit for one more with every ack."""
    await subscriber.credit(5)
    taken = []
    for _ in range(count):
        taken += await subscriber.ids(1)
        await subscriber.ack(taken[-1])
        await subscriber.credit(1)
    return taken


async def test_it_is_paged_in_order_without_gap_or_repeat(app: App, client: Client) -> None:
    await client.enqueue_all(*names(1, 60))
    stream = app.registry.find(STREAM)
    assert (stream.behind, stream.pending, len(stream.ring)) == (True, 60, WINDOW)
    async with client.subscribe() as subscriber:
        assert await consumed(subscriber, 60) == names(1, 60)
        await subscriber.settled()
    assert (stream.behind, stream.pending, stream.in_flight) == (False, 0, 0)


async def test_producers_that_go_on_meanwhile_change_nothing(app: App, client: Client, connect: Connect) -> None:
    await client.enqueue_all(*names(1, 30))
    producer = await connect(app.server.address)
    async with client.subscribe() as subscriber, asyncio.TaskGroup() as group:
        group.create_task(enqueue_at_once(producer, names(31, 200)))
        assert await consumed(subscriber, 200) == names(1, 200)
        await subscriber.settled()


async def test_many_producers_at_once_lose_and_repeat_nothing(app: App, client: Client, connect: Connect) -> None:
    producer = await connect(app.server.address)
    async with client.subscribe() as subscriber, asyncio.TaskGroup() as group:
        for number in range(10):
            own = [f"{number}-{position:02}" for position in range(20)]
            group.create_task(enqueue_at_once(producer, own))
        taken = await consumed(subscriber, 200)
        await subscriber.settled()
    assert len(set(taken)) == 200
    for number in range(10):
        own = [event_id for event_id in taken if event_id.startswith(f"{number}-")]
        assert own == sorted(own)


async def test_it_is_paged_in_order_after_a_restart(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue_all(*names(1, 50))
    async with client.subscribe() as subscriber:
        assert await consumed(subscriber, 20) == names(1, 20)
    await app.drain()
    successor = await start_app()
    client = await connect(successor.server.address)
    await client.enqueue_all(*names(51, 60))
    assert successor.registry.find(STREAM).pending == 40
    async with client.subscribe() as subscriber:
        assert await consumed(subscriber, 40) == names(21, 60)
        await subscriber.settled()


async def test_a_damaged_event_is_a_dead_letter_and_no_longer_counts_as_waiting(app: App, client: Client) -> None:
    await client.enqueue_all(*names(1, 30))
    await app.journal.execute(lambda c: c.execute("UPDATE ledger SET envelope = x'7b7d' WHERE seq = 20").fetchall())
    async with client.subscribe() as subscriber:
        assert await consumed(subscriber, 29) == [*names(1, 19), *names(21, 30)]
        await subscriber.settled()
    figures = (await client.get(f"v1/streams/{STREAM}/stats")).body
    assert (figures["depth"], figures["inflight"], figures["totals"]["dead"]) == (0, 0, 1)

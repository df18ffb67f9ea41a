"""Consumer groups of an embedded broker: a copy of the stream for each, with a journal and without one."""

import asyncio
import gc

import pytest

from broker import Broker
from broker.embedded.reader import Reader
from broker.errors import InvalidRequest

STREAM = "agents/Jen/inbox"


async def taken(broker: Broker, count: int, group: str | None) -> list[object]:
    async with broker.subscribe("agents/*/inbox", ack="auto", group=group) as reader:
        return [(await anext(reader)).envelope["payload"] for _ in range(count)]


async def test_each_group_gets_every_event(broker: Broker) -> None:
    async with broker.subscribe("agents/*/inbox", group="a"), broker.subscribe("agents/*/inbox", group="b"):
        pass
    for number in range(3):
        await broker.enqueue(STREAM, number)
    for group in ("a", "b", None):
        assert await taken(broker, 3, group) == [0, 1, 2]


async def test_a_group_goes_on_where_it_was(broker: Broker) -> None:
    async with broker.subscribe(STREAM, group="a"):
        pass
    for number in range(3):
        await broker.enqueue(STREAM, number)
    async with broker.subscribe(STREAM, ack="auto", group="a") as reader:
        await anext(reader)
    async with broker.subscribe(STREAM, ack="auto", group="a") as reader:
        assert [(await anext(reader)).envelope["payload"] for _ in range(2)] == [1, 2]


async def test_what_is_no_group_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidRequest, match="group: it has a /"):
        broker.subscribe(STREAM, group="a/b")


async def test_whoever_gives_up_waiting_for_a_group_does_not_spoil_it(broker: Broker) -> None:
    await broker.enqueue(STREAM, 1)
    for turns in range(6):  # at each turn of the loop that it takes
        joining = asyncio.create_task(broker.subscribe(STREAM, group=f"g-{turns}").__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        joining.cancel()
        (joined,) = await asyncio.gather(joining, return_exceptions=True)
        if isinstance(joined, Reader):  # it was in already
            joined.end()
        async with asyncio.timeout(30), broker.subscribe(STREAM, ack="auto", group=f"g-{turns}") as reader:
            await broker.enqueue(STREAM, 2)
            await anext(reader)


async def test_whoever_gives_up_twice_is_not_told_of_a_failure_by_the_log(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    groups = broker._core.registry.groups
    before = asyncio.all_tasks()
    async with groups._changing:
        leaving = asyncio.create_task(groups.unregister(STREAM, "nobody"))
        for _ in range(2):
            await asyncio.sleep(0)
            leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    while asyncio.all_tasks() - before:  # noqa: ASYNC110 - the change itself comes to its end
        await asyncio.sleep(0)
    del leaving
    gc.collect()
    assert "never retrieved" not in caplog.text

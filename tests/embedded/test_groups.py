"""Consumer groups of an embedded broker: a copy of the stream for each, with a journal and without one."""

import pytest

from broker import Broker
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

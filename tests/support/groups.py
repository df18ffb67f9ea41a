"""What tests of consumer groups share: members that take, a broker that is restarted, events that die."""

import asyncio
from collections.abc import Callable
from typing import Any

from broker.app import App
from tests.conftest import Connect, StartApp
from tests.support.client import Client, Subscriber
from tests.support.events import STREAM

MAX_DELIVERIES = 2
OTHER = "agents/Bob/inbox"
PATTERN = "agents/*/inbox"


async def taken(subscriber: Subscriber, count: int, *, ack: bool = True) -> list[str]:
    """Take so many events, and acknowledge them."""
    await subscriber.credit(count)
    ids = await subscriber.ids(count)
    if ack:
        await subscriber.ack(*ids)
        await subscriber.settled()
    return ids


async def nothing_more(subscriber: Subscriber) -> None:
    """Nothing is delivered, although there is credit."""
    await subscriber.credit(1)
    await subscriber.settled()


async def of_stream(client: Client, stream: str = STREAM) -> dict[str, dict[str, Any]]:
    """The figures of the groups of a stream, by name."""
    answer = await client.get(f"v1/streams/{stream.replace('/', '%2F')}/groups")
    assert answer.status == 200, answer
    return {each.pop("group"): each for each in answer.body["groups"]}


async def restarted(app: App, start_app: StartApp, connect: Connect, **config: Any) -> Client:
    """A client of the broker that takes over."""
    await app.drain()
    successor = await start_app({"streams": {"maxDeliveries": MAX_DELIVERIES, **config}})
    return await connect(successor.server.address)


async def die(client: Client, group: str, *event_ids: str) -> None:
    """Refuse events until they are dead letters of a group."""
    async with client.subscribe(group=group) as subscriber:
        for _ in range(MAX_DELIVERIES):
            ids = await taken(subscriber, len(event_ids), ack=False)
            assert sorted(ids) == sorted(event_ids)
            await subscriber.send(nack=ids)
            await subscriber.settled()


async def dead(client: Client, query: str = "?group=a") -> list[tuple[int, str]]:
    """Sequence and reason of the dead letters."""
    answer = await client.get(f"v1/dead-letters{query}")
    assert answer.status == 200, answer
    return [(each["seq"], each["reason"]) for each in answer.body["deadLetters"]]


async def flushed(app: App) -> None:
    """Have what the groups settled on disk."""
    await app.journal.groups.close()


REASON = f"refused by its consumer; {MAX_DELIVERIES} deliveries, none acknowledged"


async def figures_when(
    client: Client, condition: Callable[[dict[str, Any]], bool], group: str = "a", stream: str = STREAM
) -> dict[str, Any]:
    """Wait until a condition holds for the figures of a group; those figures."""
    async with asyncio.timeout(20):
        while not condition(figures := (await of_stream(client, stream))[group]):
            pass
    return figures


async def abandoned(client: Client, stream: str = STREAM) -> None:
    """Wait until the broker has noticed that the members of group `a` have left."""
    await figures_when(client, lambda figures: figures["subscribers"] == 0, stream=stream)


async def settled_up_to(client: Client, position: int) -> dict[str, Any]:
    """Wait until group `a` has come so far, after it has read what lay behind it, and nobody is there; its figures."""
    return await figures_when(client, lambda figures: (figures["position"], figures["subscribers"]) == (position, 0))

"""Consumer groups at odds: registrations that overlap, streams that are born or groups that are deleted meanwhile."""

import asyncio

import pytest

from broker.app import App
from broker.errors import OverQuota
from tests.conftest import Connect, StartApp
from tests.support.client import HANDSHAKE, Client, assert_error
from tests.support.events import STREAM
from tests.support.groups import (
    MAX_DELIVERIES,
    OTHER,
    PATTERN,
    die,
    flushed,
    nothing_more,
    of_stream,
    restarted,
    taken,
)

EVERYTHING = "agents/**"


@pytest.fixture
async def app(start_app: StartApp) -> App:
    return await start_app({"streams": {"maxDeliveries": MAX_DELIVERIES}})


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    return await connect(app.server.address)


async def rows_of_copies(app: App) -> list[tuple[str, str]]:
    await flushed(app)
    return await app.journal.execute(
        lambda connection: connection.execute("SELECT stream, name FROM group_streams ORDER BY stream, name").fetchall()
    )


async def test_a_second_registration_of_a_group_brings_the_past_of_a_stream_that_only_the_ledger_knows(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe() as plain:
        await taken(plain, 2)
    await app.drain()
    second = await start_app({})
    client = await connect(second.server.address)
    async with client.subscribe(EVERYTHING, group="a", **{"from": "now"}) as from_now:
        await nothing_more(from_now)
        async with client.subscribe(PATTERN, group="a"):
            assert await from_now.ids(1) == ["e-1"]
            await from_now.ack("e-1")
            assert await taken(from_now, 1) == ["e-2"]
    client = await restarted(second, start_app, connect)
    async with client.subscribe(EVERYTHING, group="a") as again:
        await nothing_more(again)


async def test_a_stream_that_is_born_while_its_group_is_registered_again_has_one_copy_that_is_kept(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    async with client.subscribe(EVERYTHING, group="a"):
        pass
    groups = app.registry.groups
    committed = lambda: app.registry._committed_seq  # noqa: E731 - as the registry calls it
    registering = asyncio.create_task(groups.register(OTHER, "a", from_start=True, last_seq=committed))
    while not groups._being_registered:  # noqa: ASYNC110 - it takes a few turns of the loop
        await asyncio.sleep(0)
    app.registry.open(OTHER)
    await client.enqueue_all("b-1", "b-2", to=OTHER)
    await registering
    async with client.subscribe(OTHER, group="a") as subscriber:
        assert await taken(subscriber, 2) == ["b-1", "b-2"]
    client = await restarted(app, start_app, connect)
    async with client.subscribe(OTHER, group="a") as subscriber:
        await nothing_more(subscriber)


async def test_a_deleted_group_leaves_nothing_behind_also_not_of_streams_that_were_just_born(
    app: App, client: Client
) -> None:
    await app.registry.join_group(EVERYTHING, "a", from_start=True)
    for name in ("agents/one", "agents/two"):  # the copy of the second waits until that of the first is written
        app.registry.open(name)
    await app.registry.groups.unregister(EVERYTHING, "a")
    assert await rows_of_copies(app) == []


async def test_a_group_that_is_deleted_and_registered_at_once_keeps_what_it_settles(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await app.registry.join_group(EVERYTHING, "a", from_start=True)
    app.registry.open("agents/one")
    app.registry.open(STREAM)
    await app.registry.groups.unregister(EVERYTHING, "a")
    await client.enqueue("e-1")
    async with client.subscribe(EVERYTHING, group="a") as subscriber:
        assert await taken(subscriber, 1) == ["e-1"]
    client = await restarted(app, start_app, connect)
    async with client.subscribe(EVERYTHING, group="a") as subscriber:
        await nothing_more(subscriber)


async def test_a_pattern_with_a_subscriber_is_in_use_also_before_it_has_streams(client: Client) -> None:
    async with client.subscribe(EVERYTHING, group="a") as subscriber:
        assert_error(await client.request("DELETE", f"v1/groups/a?stream={EVERYTHING}"), 409, "in_use")
        await client.enqueue("e-1")
        assert await taken(subscriber, 1) == ["e-1"]


async def test_a_group_that_a_stream_has_already_is_not_one_too_many(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.streams.groups.GROUPS_PER_STREAM_MAX", 2)
    for name in ("a", "b"):
        async with client.subscribe(group=name):
            pass
    async with client.subscribe(PATTERN, group="b"):
        assert sorted(await of_stream(client)) == ["a", "b"]


async def test_the_groups_of_a_stream_are_bounded_also_before_it_is_born(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.streams.groups.GROUPS_PER_STREAM_MAX", 2)
    for name, pattern in (("a", EVERYTHING), ("b", PATTERN), ("b", "**"), ("c", "tasks/**")):
        async with client.subscribe(pattern, group=name):
            pass
    answer = await client.get(f"v1/subscribe?stream={PATTERN}&group=d", HANDSHAKE)
    assert "2 groups already" in assert_error(answer, 429, "over_quota", retryable=True)
    await client.enqueue("e-1")
    assert sorted(await of_stream(client)) == ["a", "b"]
    async with client.subscribe("*/*/*/*", group="d"):
        pass
    with pytest.raises(OverQuota, match="3 groups are to have it, and 2 may"):
        app.registry.open("agents/a/b/c")


async def test_what_the_stream_itself_replays_is_not_delivered_to_its_groups_again(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue("e-1")
    async with client.subscribe(group="a") as group, client.subscribe(group="late", **{"from": "now"}):
        assert await taken(group, 1) == ["e-1"]
        async with client.subscribe() as plain:
            for _ in range(MAX_DELIVERIES):
                await taken(plain, 1, ack=False)
                await plain.send(nack="e-1")
                await plain.settled()
            await app.journal.execute(lambda _connection: None)
            answer = await client.request("POST", "v1/dead-letters/1/replay")
            assert answer.body == {"seq": 1, "redrivenAs": 2}
            assert await taken(plain, 1) == ["e-1"]
        await nothing_more(group)
    assert {name: each["depth"] for name, each in (await of_stream(client)).items()} == {"a": 0, "late": 0}
    client = await restarted(app, start_app, connect)
    for name, expected in (("a", []), ("late", []), ("new", ["e-1"])):
        async with client.subscribe(group=name) as group:
            assert await taken(group, len(expected)) == expected if expected else True
            await nothing_more(group)


async def test_what_waits_in_memory_does_not_move_the_position_in_the_ledger(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    """A stream was durable, is in memory for a while, and its group still has a dead letter from before."""
    await client.enqueue("e-1")
    await die(client, "a", "e-1")
    client = await restarted(app, start_app, connect, durability="memory")
    await client.enqueue("m-1")
    await client.request("POST", "v1/dead-letters/1/replay?group=a")
    async with client.subscribe(group="a") as subscriber:
        assert sorted(await taken(subscriber, 2, ack=False)) == ["e-1", "m-1"]
        await subscriber.ack("e-1")
        await subscriber.settled()
        assert (await of_stream(client))["a"]["position"] == 1

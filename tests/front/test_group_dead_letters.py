"""Dead letters of consumer groups: listed, replayed to their group alone, discarded."""

import pytest

from broker.app import App
from broker.clock import ManualClock
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.groups import (
    MAX_DELIVERIES,
    REASON,
    dead,
    die,
    flushed,
    nothing_more,
    restarted,
    taken,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(start_app: StartApp, clock: ManualClock) -> App:
    return await start_app({"streams": {"maxDeliveries": MAX_DELIVERIES}}, clock=clock)


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    return await connect(app.server.address)


async def test_what_dies_for_a_group_dies_for_that_group_alone(app: App, client: Client) -> None:
    await client.enqueue_all("e-1", "e-2")
    await die(client, "a", "e-1", "e-2")
    await flushed(app)
    assert await dead(client) == [(1, REASON), (2, REASON)]
    assert await dead(client, "") == await dead(client, "?group=b") == []
    async with client.subscribe(group="b") as b, client.subscribe() as plain:
        assert await taken(b, 2) == await taken(plain, 2) == ["e-1", "e-2"]
    whole = await client.get("v1/dead-letters/2?group=a")
    assert (whole.body["envelope"]["id"], whole.body["attempts"]) == ("e-2", MAX_DELIVERIES)
    assert_error(await client.get("v1/dead-letters/2"), 404, "not_found")
    assert_error(await client.get("v1/dead-letters/2?group=b"), 404, "not_found")


@pytest.mark.parametrize("restart", [False, True])
async def test_a_replayed_dead_letter_of_a_group_is_delivered_to_it_alone(
    app: App, client: Client, start_app: StartApp, connect: Connect, restart: bool
) -> None:
    await client.enqueue_all("e-1", "e-2")
    await die(client, "a", "e-1", "e-2")
    await flushed(app)
    answer = await client.request("POST", "v1/dead-letters/1/replay?group=a")
    assert answer.body == {"seq": 1, "redrivenAs": 1}
    if restart:
        client = await restarted(app, start_app, connect)
    async with client.subscribe(group="a") as a, client.subscribe(group="b") as b:
        await a.credit(2)
        again = await a.delivery()
        assert (again["deliver"]["id"], again["attempt"]) == ("e-1", 1)
        await a.ack("e-1")
        await a.settled()
        assert await taken(b, 2) == ["e-1", "e-2"]
        await nothing_more(b)
    assert await dead(client) == [(2, REASON)]


async def test_a_replayed_dead_letter_that_was_acknowledged_does_not_come_back(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue("e-1")
    await die(client, "a", "e-1")
    await flushed(app)
    await client.request("POST", "v1/dead-letters/1/replay?group=a")
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 1) == ["e-1"]
    client = await restarted(app, start_app, connect)
    async with client.subscribe(group="a") as subscriber:
        await nothing_more(subscriber)
    assert await dead(client) == []


async def test_more_replayed_dead_letters_than_the_window_holds_come_once_each(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is filled a second time before what was acknowledged is written down."""
    monkeypatch.setattr("broker.streams.stream.WINDOW_MAX", 4)
    names = [f"e-{number}" for number in range(9)]
    await client.enqueue_all(*names)
    async with client.subscribe(group="a") as subscriber:
        for _ in range(9 * MAX_DELIVERIES):
            await subscriber.send(nack=await taken(subscriber, 1, ack=False))
        await subscriber.settled()
    await flushed(app)
    monkeypatch.setattr("broker.journal.groups.SAVE_SECONDS", 3600)
    for seq in range(1, 10):
        await client.request("POST", f"v1/dead-letters/{seq}/replay?group=a")
    async with client.subscribe(group="a") as subscriber:
        assert sorted([name for _ in range(9) for name in await taken(subscriber, 1)]) == names
        await nothing_more(subscriber)
    await flushed(app)
    assert (
        await app.journal.execute(lambda connection: connection.execute("SELECT * FROM group_events").fetchall()) == []
    )


async def test_dead_letters_of_a_group_are_replayed_and_discarded_by_a_filter(app: App, client: Client) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3")
    await die(client, "a", "e-1", "e-2", "e-3")
    await flushed(app)
    headers = {"Content-Type": "application/json"}

    async def bulk(action: str, content: str) -> list[str]:
        async with client.session.post(f"v1/dead-letters/{action}", data=content, headers=headers) as response:
            assert response.status == 200
            return (await response.text()).splitlines()

    lines = await bulk("discard", '{"filter": {"group": "a", "reason": "refused"}, "reason": "old", "dryRun": true}')
    assert lines == ['{"matching":3}']
    answer = await client.request(
        "POST", "v1/dead-letters/1/discard?group=a", data='{"reason": "old"}', headers=headers
    )
    assert answer.body == {"seq": 1, "discarded": True}
    assert (await bulk("replay", '{"filter": {"group": "a"}}'))[-1] == '{"done":2,"total":2,"finished":true}'
    assert await dead(client) == []
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 2) == ["e-2", "e-3"]
        await nothing_more(subscriber)


async def test_a_discarded_dead_letter_ahead_of_the_position_stays_settled(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe(group="a") as subscriber:
        await taken(subscriber, 2, ack=False)
        await subscriber.send(nack="e-2")
        await taken(subscriber, 1, ack=False)
        await subscriber.send(nack="e-2")
        await subscriber.settled()
    await flushed(app)
    headers = {"Content-Type": "application/json"}
    await client.request("POST", "v1/dead-letters/2/discard?group=a", data='{"reason": "old"}', headers=headers)
    client = await restarted(app, start_app, connect)
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 1) == ["e-1"]
        await nothing_more(subscriber)


async def test_retention_keeps_the_dead_letters_of_a_group(start_app: StartApp, connect: Connect) -> None:
    clock = ManualClock()
    config = {"streams": {"maxDeliveries": MAX_DELIVERIES}, "journal": {"retention": {"maxAgeSeconds": 60}}}
    app = await start_app(config, clock=clock)
    client = await connect(app.server.address)
    await client.enqueue("e-1")
    await die(client, "a", "e-1")
    await client.enqueue("e-2")
    async with client.subscribe(group="a") as group, client.subscribe() as plain:
        await taken(plain, 2)
        await taken(group, 1)
    await flushed(app)
    await app.journal.execute(lambda _connection: None)
    clock.advance(3_600_000)
    await app.views.store_of("latestPerAgent").save()
    assert await app.core.retention.sweep() == 1
    assert (await client.get("v1/dead-letters/1?group=a")).body["envelope"]["id"] == "e-1"


async def test_a_damaged_dead_letter_does_not_keep_back_those_that_are_replayed_with_it(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.streams.stream.WINDOW_MAX", 2)
    names = [f"e-{number}" for number in range(5)]
    await client.enqueue_all(*names)
    async with client.subscribe(group="a") as subscriber:
        for _ in range(5 * MAX_DELIVERIES):
            await subscriber.send(nack=await taken(subscriber, 1, ack=False))
        await subscriber.settled()
    await flushed(app)
    damage = "UPDATE ledger SET envelope = zeroblob(length(envelope)) WHERE seq IN (1, 2, 3)"
    await app.journal.execute(lambda connection: connection.execute(damage).fetchall())
    headers = {"Content-Type": "application/json"}
    content = '{"filter": {"group": "a"}}'
    async with client.session.post("v1/dead-letters/replay", data=content, headers=headers) as response:
        assert (await response.text()).splitlines()[-1] == '{"done":5,"total":5,"finished":true}'
    async with client.subscribe(group="a") as subscriber:
        assert [name for _ in range(2) for name in await taken(subscriber, 1)] == ["e-3", "e-4"]
        await nothing_more(subscriber)
    await flushed(app)
    assert [seq for seq, _reason in await dead(client)] == [1, 2, 3]

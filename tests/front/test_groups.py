"""Consumer groups over sockets: each has its own copy of a stream, with its own position, leases and dead letters."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from broker.app import App
from broker.clock import ManualClock
from broker.limits import GROUP_NAME_BYTES_MAX, LEASE_MS_DEFAULT
from tests.conftest import Connect, StartApp
from tests.support.client import HANDSHAKE, Client, assert_error
from tests.support.events import STREAM
from tests.support.groups import (
    MAX_DELIVERIES,
    OTHER,
    PATTERN,
    abandoned,
    flushed,
    nothing_more,
    of_stream,
    restarted,
    settled_up_to,
    taken,
)
from tests.support.process import until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(start_app: StartApp, clock: ManualClock) -> App:
    return await start_app({"streams": {"maxDeliveries": MAX_DELIVERIES}}, clock=clock)


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    return await connect(app.server.address)


async def test_every_group_gets_every_event_and_so_does_the_stream_itself(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe(group="a") as a, client.subscribe(group="b") as b, client.subscribe() as plain:
        await client.enqueue("e-3")
        for subscriber in (a, b, plain):
            assert await taken(subscriber, 3) == ["e-1", "e-2", "e-3"]
            await nothing_more(subscriber)


async def test_the_members_of_a_group_share_its_copy(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3", "e-4")
    async with client.subscribe(group="a") as one, client.subscribe(group="a") as two:
        first, second = await taken(one, 2), await taken(two, 2)
    assert sorted(first + second) == ["e-1", "e-2", "e-3", "e-4"]


@pytest.mark.parametrize(("start", "expected"), [("start", ["e-1", "e-2", "e-3"]), ("now", ["e-3"])])
async def test_a_new_group_begins_at_the_start_or_now(client: Client, start: str, expected: list[str]) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe(group="a", **{"from": start}) as subscriber:
        await client.enqueue("e-3")
        assert await taken(subscriber, len(expected)) == expected
        await nothing_more(subscriber)


async def test_a_group_goes_on_where_it_was_whatever_from_says(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 1) == ["e-1"]
    for start in ("start", "now"):
        async with client.subscribe(group="a", **{"from": start}) as subscriber:
            assert await taken(subscriber, 1, ack=False) == ["e-2"]


async def test_what_a_group_settled_is_settled_after_a_restart(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3", "e-4")
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 2) == ["e-1", "e-2"]
    client = await restarted(app, start_app, connect)
    await client.enqueue("e-5")
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 3) == ["e-3", "e-4", "e-5"]
        await nothing_more(subscriber)


async def test_what_was_settled_out_of_order_is_settled_after_a_restart(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3", "e-4")
    async with client.subscribe(group="a") as subscriber:
        await taken(subscriber, 4, ack=False)
        await subscriber.ack("e-2", "e-4")
        await subscriber.settled()
    client = await restarted(app, start_app, connect)
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 2) == ["e-1", "e-3"]
        await nothing_more(subscriber)
    figures = await settled_up_to(client, 4)
    assert figures == {"position": 4, "depth": 0, "inflight": 0, "subscribers": 0, "dead": 0}


async def test_the_rows_of_what_was_settled_ahead_go_when_the_position_passes_them(app: App, client: Client) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3")

    async def rows() -> list[tuple[int, int]]:
        await app.journal.groups.close()
        return await app.journal.execute(
            lambda connection: connection.execute("SELECT seq, state FROM group_events ORDER BY seq").fetchall()
        )

    async with client.subscribe(group="a") as subscriber:
        await taken(subscriber, 3, ack=False)
        await subscriber.ack("e-2", "e-3")
        await subscriber.settled()
        assert await rows() == [(2, 1), (3, 1)]
        await subscriber.ack("e-1")
        await subscriber.settled()
        assert await rows() == []


async def test_deliveries_in_vain_to_a_group_are_counted_across_a_restart(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    await client.enqueue_all("e-1", "e-2", "e-3")
    async with client.subscribe(group="a") as subscriber:
        await taken(subscriber, 3, ack=False)
        await subscriber.send(nack="e-2")
        await subscriber.ack("e-3")
        await subscriber.settled()
    client = await restarted(app, start_app, connect)
    async with client.subscribe(group="a") as subscriber:
        await subscriber.credit(5)
        frames = [await subscriber.delivery() for _ in range(2)]
        assert sorted((frame["deliver"]["id"], frame["attempt"]) for frame in frames) == [("e-1", 2), ("e-2", 2)]
        await subscriber.ack("e-1", "e-2")
        await subscriber.settled()
    await settled_up_to(client, 3)


async def test_the_leases_of_a_group_are_its_own(app: App, client: Client, clock: ManualClock) -> None:
    await client.enqueue("e-1")
    async with client.subscribe(group="a") as a, client.subscribe() as plain:
        await taken(a, 1, ack=False)
        await taken(plain, 1, ack=False)
        await plain.ack("e-1")
        await plain.settled()
        clock.advance(LEASE_MS_DEFAULT)
        app.registry.expire()
        await a.credit(1)
        again = await a.delivery()
        assert (again["deliver"]["id"], again["attempt"]) == ("e-1", 2)
        await nothing_more(plain)


async def test_a_group_that_lags_behind_its_window_is_paged_in_order(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.streams.stream.WINDOW_MAX", 4)
    monkeypatch.setattr("broker.journal.group_queries.BROWSE_ROWS_MAX", 7)
    names = [f"e-{number:02}" for number in range(40)]
    for number, name in enumerate(names):
        await client.enqueue(name)
        await client.enqueue(f"noise-{number}", OTHER)
    async with client.subscribe(group="a") as subscriber:
        assert (await of_stream(client))["a"]["depth"] == 40
        ids = []
        for _ in range(20):
            ids += await taken(subscriber, 2)
        assert ids == names
        await nothing_more(subscriber)


async def test_a_group_of_a_pattern_has_streams_that_came_while_it_was_away(
    app: App, client: Client, start_app: StartApp, connect: Connect
) -> None:
    """The stream is made, filled, consumed by its own consumers and forgotten; the group still has its copy."""
    async with client.subscribe(PATTERN, group="a") as subscriber:
        await nothing_more(subscriber)
    await client.enqueue_all("b-1", "b-2", to=OTHER)
    async with client.subscribe(OTHER) as plain:
        await taken(plain, 2)
    client = await restarted(app, start_app, connect)
    async with client.subscribe(PATTERN, group="a") as subscriber:
        await client.enqueue("e-1")
        assert sorted(await taken(subscriber, 3)) == ["b-1", "b-2", "e-1"]
        await nothing_more(subscriber)


@pytest.mark.parametrize(("start", "expected"), [("start", 2), ("now", 0)])
async def test_a_group_of_a_pattern_begins_at_the_start_of_streams_that_this_process_never_saw(
    app: App, client: Client, start_app: StartApp, connect: Connect, start: str, expected: int
) -> None:
    await client.enqueue_all("b-1", "b-2", to=OTHER)
    async with client.subscribe(OTHER) as plain:
        await taken(plain, 2)
    client = await restarted(app, start_app, connect)
    async with client.subscribe(PATTERN, group="a", **{"from": start}) as subscriber:
        if expected:
            assert await taken(subscriber, expected) == ["b-1", "b-2"]
        await nothing_more(subscriber)
        await client.enqueue("b-3", OTHER)
        assert await subscriber.ids(1) == ["b-3"]


async def test_one_group_by_name_and_by_pattern_is_one_copy(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe(group="a") as by_name, client.subscribe(PATTERN, group="a") as by_pattern:
        first, second = await taken(by_name, 1), await taken(by_pattern, 1)
        assert sorted(first + second) == ["e-1", "e-2"]
        await nothing_more(by_pattern)


async def test_subscribers_to_a_pattern_join_what_their_group_gets_by_another_name(client: Client) -> None:
    await client.enqueue("e-1")
    async with client.subscribe("agents/*/inbox", group="a", **{"from": "now"}) as by_pattern:
        async with client.subscribe("agents/**", group="a") as other:
            await nothing_more(other)
        await client.enqueue("e-2")
        assert await taken(by_pattern, 1) == ["e-2"]


async def test_retention_keeps_what_a_group_has_not_settled(start_app: StartApp, connect: Connect) -> None:
    clock = ManualClock()
    app = await start_app({"journal": {"retention": {"maxAgeSeconds": 60}}}, clock=clock)
    client = await connect(app.server.address)
    await client.enqueue_all("e-1", "e-2", "e-3")
    async with client.subscribe(group="a") as group, client.subscribe() as plain:
        await taken(plain, 3)
        await taken(group, 1)
        await flushed(app)
        await app.journal.execute(lambda _connection: None)
        clock.advance(3_600_000)
        await app.views.store_of("latestPerAgent").save()
        assert await app.core.retention.sweep() == 1
        assert await taken(group, 2) == ["e-2", "e-3"]
        await flushed(app)
        assert await app.core.retention.sweep() == 2


async def test_groups_are_listed_and_deleted(app: App, client: Client, start_app: StartApp, connect: Connect) -> None:
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe(group="a") as subscriber:
        await taken(subscriber, 1)
        assert (await of_stream(client))["a"] == {"position": 1, "depth": 1, "inflight": 0, "subscribers": 1, "dead": 0}
        listed = await client.get("v1/groups")
        assert listed.body == {"groups": [{"group": "a", "stream": STREAM, "since": 0}]}
        path = f"v1/groups/a?stream={STREAM}"
        assert_error(await client.request("DELETE", path), 409, "in_use")
    await abandoned(client)
    deleted = await client.request("DELETE", path)
    assert deleted.body == {"group": "a", "stream": STREAM, "deleted": True}
    assert_error(await client.request("DELETE", path), 404, "not_found")
    client = await restarted(app, start_app, connect)
    assert (await client.get("v1/groups")).body == {"groups": []}
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 2) == ["e-1", "e-2"]


async def test_deleting_a_pattern_leaves_what_the_group_has_by_name(client: Client) -> None:
    await client.enqueue("e-1")
    await client.enqueue("b-1", OTHER)
    for name in (STREAM, PATTERN):
        async with client.subscribe(name, group="a"):
            pass
    await abandoned(client)
    await abandoned(client, OTHER)
    answer = await client.request("DELETE", f"v1/groups/a?stream={PATTERN}")
    assert answer.status == 200, answer
    assert list(await of_stream(client)) == ["a"]
    assert await of_stream(client, OTHER) == {}


async def test_a_group_of_a_stream_in_memory_has_its_copy_until_the_broker_ends(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app({"streams": {"perStreamCaps": {STREAM: {"durability": "memory", "maxDepth": 2}}}})
    client = await connect(app.server.address)
    async with client.subscribe(group="a") as group, client.subscribe() as plain:
        await client.enqueue_all("e-1", "e-2")
        assert await taken(plain, 2) == ["e-1", "e-2"]
        full = await client.post(b'{"to":"%b","envelope":%b}' % (STREAM.encode(), _envelope("e-3")))
        assert_error(full, 429, "over_quota", retryable=True, stream=STREAM)
        assert await taken(group, 2) == ["e-1", "e-2"]
        await client.enqueue("e-3")
        assert await taken(group, 1) == await taken(plain, 1) == ["e-3"]


def _envelope(event_id: str) -> bytes:
    return b'{"id":"%b","ts":"2025-10-18T19:55:00Z","to":"%b","type":"t","payload":1}' % (
        event_id.encode(),
        STREAM.encode(),
    )


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("group=", "it is empty"),
        ("group=a%2Fb", "/"),
        ("group=*", "outside"),
        (f"group={'n' * (GROUP_NAME_BYTES_MAX + 1)}", f"at most {GROUP_NAME_BYTES_MAX}"),
        ("group=a&from=17", "start or now"),
        ("from=now", "goes with group"),
    ],
)
async def test_what_is_no_group_is_refused(client: Client, query: str, says: str) -> None:
    answer = await client.get(f"v1/subscribe?stream={STREAM}&{query}")
    assert says in assert_error(answer, 400, "invalid_request")


async def test_the_longest_name_is_a_name(client: Client) -> None:
    await client.enqueue("e-1")
    async with client.subscribe(group="n" * GROUP_NAME_BYTES_MAX) as subscriber:
        assert await taken(subscriber, 1) == ["e-1"]


@pytest.mark.parametrize(
    ("bound", "value", "says"),
    [
        ("GROUPS_PER_STREAM_MAX", 2, "2 groups already"),
        ("GROUPS_MAX", 2, "2 copies"),
        ("GROUP_REGISTRATIONS_MAX", 2, "2 groups already"),
    ],
)
async def test_groups_are_bounded(
    client: Client, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, says: str
) -> None:
    monkeypatch.setattr(f"broker.streams.groups.{bound}", value)
    for name in ("a", "b"):
        async with client.subscribe(group=name):
            pass
    answer = await client.get(f"v1/subscribe?stream={STREAM}&group=c", HANDSHAKE)
    assert says in assert_error(answer, 429, "over_quota", retryable=True)
    async with client.subscribe(group="b"):
        pass


async def test_a_kill_redelivers_what_a_group_had_not_settled_and_nothing_else(
    tmp_path: Path, broker_process: Any, connect: Connect
) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    await client.enqueue_all("e-1", "e-2", "e-3")
    async with client.subscribe(group="a") as subscriber:
        await taken(subscriber, 3, ack=False)
        await subscriber.ack("e-1", "e-3")
        await subscriber.settled()
        await client.enqueue("e-4")
        file = apsw.Connection(str(tmp_path / "data" / "courier.db"), flags=apsw.SQLITE_OPEN_READONLY)
        until(lambda: file.execute("SELECT count(*) FROM group_events").get == 1)
        file.close()
        broker.kill()
    broker = broker_process()
    client = await connect(broker.url)
    async with client.subscribe(group="a") as subscriber:
        assert await taken(subscriber, 2) == ["e-2", "e-4"]
        await nothing_more(subscriber)

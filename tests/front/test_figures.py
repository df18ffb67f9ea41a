"""`GET /v1/stats`: many streams at once, and how old the oldest event of each is."""

from typing import Any

import pytest

from broker.clock import ManualClock
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.writer import stored


async def figures(client: Client, query: str = "") -> tuple[dict[str, Any], str | None]:
    answer = await client.get(f"v1/stats{query}")
    assert answer.status == 200, answer
    return {each["stream"]: each for each in answer.body["streams"]}, answer.body["next"]


async def test_streams_are_shown_by_name_by_pattern_and_page_by_page(client: Client) -> None:
    for name in ("b", "a/b", "a/c"):
        await client.enqueue("e-1", name)
    for query, names, following in (
        ("", ["a/b", "a/c", "b"], None),
        ("?stream=a/*", ["a/b", "a/c"], None),
        ("?stream=b", ["b"], None),
        ("?stream=nowhere", [], None),
        ("?limit=2", ["a/b", "a/c"], "a/c"),
        ("?limit=2&after=a/c", ["b"], None),
    ):
        found, after = await figures(client, query)
        assert (list(found), after) == (names, following), query
    whole = (await client.get("v1/streams/b/stats")).body
    found, _ = await figures(client, "?stream=b")
    assert found["b"].keys() == whole.keys() | {"stream", "oldestMs"}


async def test_the_oldest_unfinished_event_has_an_age_until_it_is_done(start_app: StartApp, connect: Connect) -> None:
    clock = ManualClock()
    app = await start_app({"streams": {"perStreamCaps": {"fast": {"durability": "memory"}}}}, clock=clock)
    client = await connect(app.server.address)
    for name in ("slow", "fast"):
        await client.enqueue("e-1", name)
    clock.advance(1500)
    for name in ("slow", "fast"):
        await client.enqueue("e-2", name)
    clock.advance(500)
    found, _ = await figures(client)
    assert {name: each["oldestMs"] for name, each in found.items()} == {"slow": 2000, "fast": 2000}
    for name in ("slow", "fast"):
        async with client.subscribe(name) as subscriber:
            await subscriber.credit(1)
            await subscriber.ids(1)
            if name == "slow":
                found, _ = await figures(client, "?stream=slow")
                assert found["slow"]["oldestMs"] == 2000, "it is in flight, and not done"
            await subscriber.ack("e-1")
            await subscriber.settled()
    await stored(app)
    found, _ = await figures(client)
    assert {name: each["oldestMs"] for name, each in found.items()} == {"slow": 500, "fast": 500}


async def test_a_stream_without_unfinished_events_has_no_oldest(client: Client) -> None:
    await client.enqueue("e-1", "s")
    async with client.subscribe("s") as subscriber:
        await subscriber.credit(1)
        await subscriber.ack(*await subscriber.ids(1))
        await subscriber.settled()
    found, _ = await figures(client)
    assert (found["s"]["depth"], found["s"]["oldestMs"]) == (0, None)


async def test_only_what_the_caller_may_subscribe_to_is_shown(start_app: StartApp, connect: Connect) -> None:
    scopes = ["streams:*:enqueue", "streams:mine/**:subscribe"]
    app = await start_app({"auth": {"tokens": [{"token": "t", "scopes": scopes}]}})
    client = await connect(app.server.address, headers={"Authorization": "Bearer t"})
    for name in ("mine/a", "theirs/a"):
        await client.enqueue("e-1", name)
    assert list((await figures(client))[0]) == ["mine/a"]


@pytest.mark.parametrize("query", ["stream=a//b", "stream=**/a", "limit=0", "limit=1001", "streams=a"])
async def test_a_wrong_query_is_refused(client: Client, query: str) -> None:
    assert_error(await client.get(f"v1/stats?{query}"), 400, "invalid_request")

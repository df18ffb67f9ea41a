"""`/v1/why`: the whole life of one event."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from broker.app import App
from broker.journal import lives
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import STREAM
from tests.support.writer import stored

RULES = [
    {"id": "first", "when": {"to": STREAM}, "do": [{"action": "notify", "to": "first"}]},
    {"id": "second", "when": {"to": "first"}, "do": [{"action": "route", "to": "second"}]},
    {"id": "other", "when": {"from": "max"}, "do": [{"action": "enrich", "tags": ["max"]}]},
]


@pytest.fixture
async def ruled(start_app: StartApp) -> App:
    return await start_app({"triggers": RULES, "streams": {"maxDeliveries": 1}})


@pytest.fixture
async def client(ruled: App, connect: Connect) -> Client:
    return await connect(ruled.server.address)


async def get(client: Client, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status == 200, answer
    return answer.body


async def why(client: Client, event_id: str, source: str = f"stream:{STREAM}") -> Any:
    return await get(client, f"v1/why/{quote(source, safe='')}/{event_id}")


async def test_a_life_begins_with_its_receipt_and_its_rules(client: Client) -> None:
    await client.enqueue("e-1", corr="c-1")
    await client.enqueue("e-1", corr="c-1")
    await client.enqueue("e-1", payload="other")
    life = await why(client, "e-1")
    receipt = await get(client, f"v1/receipts/{quote(f'stream:{STREAM}', safe='')}/e-1")
    assert receipt.items() <= life.items()
    assert (life["duplicates"], life["payloadConflicts"], life["correlationId"]) == (2, 1, "c-1")
    assert (life["enriched"], life["receivedSha256"]) == (False, life["payloadSha256"])
    assert life["considered"]["evaluated"] == "now"
    assert [(rule["id"], rule["matches"], rule["miss"]) for rule in life["considered"]["rules"]] == [
        ("first", True, None),
        ("second", False, "to is 'agents/Jen/inbox', and when.to is 'first'"),
        ("other", False, "there is no from, and when.from is 'max'"),
    ]


async def test_causes_and_effects_are_told_in_both_directions(client: Client) -> None:
    await client.enqueue("e-1")
    life = await why(client, "e-1")
    assert (life["rule"], life["causedBy"]) == (None, [])
    first, second = life["caused"]
    assert [(each["seq"], each["rule"], each["stream"], each["causedBySeq"]) for each in (first, second)] == [
        (2, "first", "first", 1),
        (3, "second", "second", 2),
    ]
    last = await why(client, second["id"], second["source"])
    assert last["rule"] == "second"
    assert [(each["seq"], each["id"], each["rule"]) for each in last["causedBy"]] == [
        (1, "e-1", None),
        (2, first["id"], "first"),
    ]
    assert last["caused"] == []
    assert life["causedComplete"] is True


async def test_effects_are_told_also_when_their_rule_is_gone(ruled: App, client: Client) -> None:
    await client.enqueue("e-1")
    ruled.triggers.rules._configured.clear()
    ruled.triggers.rules._changed()
    life = await why(client, "e-1")
    assert [each["rule"] for each in life["caused"]] == ["first", "second"]
    assert life["considered"]["rules"] == []


async def test_an_enriched_event_says_so(client: Client) -> None:
    await client.enqueue("e-1", **{"from": "max"})
    life = await why(client, "e-1")
    assert life["enriched"] is True
    assert life["receivedSha256"] != life["payloadSha256"]


async def test_deliveries_death_and_resurrection_are_told(ruled: App, client: Client) -> None:
    await client.enqueue("e-1")
    async with client.subscribe() as subscriber:
        await subscriber.credit(1)
        await subscriber.ids(1)
        assert (await why(client, "e-1"))["leased"] is True
        await subscriber.send(nack="e-1")
        await subscriber.settled()
    await stored(ruled)
    dead = await why(client, "e-1")
    assert (dead["state"], dead["attempts"], dead["leased"]) == ("dead_letter", 1, False)
    assert dead["firstAttemptAt"].endswith("Z")
    assert "refused by its consumer" in dead["reason"]
    await client.request("POST", "v1/dead-letters/1/replay")
    assert (await why(client, "e-1"))["redrivenAs"] == 4
    assert (await why(client, "e-1", "redrive:1"))["redrivenFrom"] == 1


async def test_where_the_contents_are_gone_no_rule_is_asked(ruled: App, client: Client) -> None:
    await client.enqueue("e-1")
    for change in ("envelope = x'7b7d'", "envelope = NULL"):
        await ruled.journal.execute(lambda c, change=change: c.execute(f"UPDATE ledger SET {change} WHERE seq = 1").get)
        life = await why(client, "e-1")
        assert (life["considered"]["evaluated"], life["considered"]["rules"]) == ("not", [])
        assert len(life["caused"]) == 2
    assert life["emptied"] is True


# Which one is meant.


async def found(client: Client, **query: Any) -> list[tuple[int, str]]:
    answer = await get(client, "v1/why?" + "&".join(f"{key}={quote(str(value))}" for key, value in query.items()))
    assert answer["complete"] is True
    return [(event["seq"], event["stream"]) for event in answer["events"]]


async def test_an_event_is_found_by_its_id_its_stream_its_source_or_its_sequence(ruled: App, client: Client) -> None:
    for stream in ("a", "b", "z"):
        await client.enqueue("e-1", stream)
    await client.enqueue("e-2", "a")
    redriven = (
        "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
        "received_at, ingest_last_seen_at, payload_sha256) "
        "VALUES (?, 'c', 'r', 't', ?, 'e-1', 1, 1, 1, zeroblob(32))"
    )
    values = [(100 + number, f"redrive:{number}") for number in range(3)]
    await ruled.journal.execute(lambda connection: connection.executemany(redriven, values).fetchall())
    assert await found(client, id="e-1") == [(1, "a"), (2, "b"), (3, "z")]
    assert await found(client, id="e-1", stream="b") == [(2, "b")]
    assert await found(client, id="e-1", source="stream:z") == [(3, "z")]
    assert await found(client, id="e-1", source="redrive:1") == [(101, "r")]
    assert await found(client, seq=4) == [(4, "a")]
    assert await found(client, id="never") == []
    assert await found(client, seq=999) == []


async def test_a_search_says_when_it_did_not_look_at_everything(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in ("a", "b", "c"):
        await client.enqueue("e-1", stream)
    monkeypatch.setattr(lives, "WHY_SOURCES_MAX", 2)
    answer = await get(client, "v1/why?id=e-1")
    assert ([event["stream"] for event in answer["events"]], answer["complete"]) == (["a", "b"], False)
    answer = await get(client, "v1/why?id=e-1&stream=c")
    assert ([event["stream"] for event in answer["events"]], answer["complete"]) == (["c"], False)
    monkeypatch.setattr(lives, "WHY_SOURCES_MAX", 100)
    monkeypatch.setattr(lives, "WHY_FOUND_MAX", 1)
    answer = await get(client, "v1/why?id=e-1")
    assert ([event["stream"] for event in answer["events"]], answer["complete"]) == (["a"], False)


async def test_what_was_caused_is_told_within_a_bound(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.enqueue("e-1")
    monkeypatch.setattr(lives, "WHY_CHAIN_MAX", 1)
    life = await why(client, "e-1")
    assert ([each["seq"] for each in life["caused"]], life["causedComplete"]) == ([2], False)
    monkeypatch.setattr(lives, "WHY_CHAIN_MAX", 2)
    assert (await why(client, "e-1"))["causedComplete"] is True


async def test_a_question_that_names_no_event_is_refused(client: Client) -> None:
    for query in ("", "?id=a&seq=1", "?stream=a"):
        assert_error(await client.get(f"v1/why{query}"), 400, "invalid_request")
    message = assert_error(await client.get("v1/why?seq=0"), 400, "invalid_request")
    assert message.startswith("seq must be a whole number from 1")
    message = assert_error(await client.get("v1/why/stream:a/never"), 404, "not_found")
    assert "events of streams in memory leave no trace" in message


async def test_a_caller_sees_only_what_it_may_subscribe_to(start_app: StartApp, connect: Connect) -> None:
    tokens = [
        {"token": "all", "scopes": ["streams:*:enqueue"]},
        {"token": "some", "name": "some", "scopes": [f"streams:{STREAM}:subscribe", "streams:second:subscribe"]},
    ]
    app = await start_app({"auth": {"tokens": tokens}, "triggers": RULES})
    writer = await connect(app.server.address, headers={"Authorization": "Bearer all"})
    client = await connect(app.server.address, headers={"Authorization": "Bearer some"})
    await writer.enqueue("e-1")
    await writer.enqueue("e-1", "secret")
    life = await why(client, "e-1")
    assert [each["stream"] for each in life["caused"]] == ["second"]
    assert (life["hidden"], life["considered"]) == (1, None)
    assert await found(client, id="e-1") == [(1, STREAM)]
    (effect,) = json.loads(json.dumps(life["caused"]))
    (first,) = await stored(app, "source_event_id", "stream = 'first'")
    assert_error(await client.get(f"v1/why/trigger:first/{first}"), 404, "not_found")
    assert_error(await client.get("v1/why/stream:secret/e-1"), 403, "forbidden")
    assert (await why(client, effect["id"], effect["source"]))["hidden"] == 1

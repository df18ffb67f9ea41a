"""`GET` of streams, figures, events and receipts: what is seen, by whom, and that nothing is consumed."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from broker.app import App
from broker.limits import PAGE_LIMIT_MAX, SEQ_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import AWKWARD_PAYLOADS, STREAM, raw_body, raw_envelope
from tests.support.writer import stored


def receipt_path(event_id: str, stream: str = STREAM) -> str:
    return f"v1/receipts/{quote(f'stream:{stream}', safe='')}/{quote(event_id, safe='')}"


async def get(client: Client, path: str) -> Any:
    """The body of a GET that must succeed; the path goes out exactly as it is written."""
    answer = await client.get(path)
    assert answer.status == 200, answer
    return answer.body


async def empty(app: App, seq: int) -> None:
    """What retention does to a finished event."""
    await app.journal.execute(
        lambda c: c.execute("UPDATE ledger SET state = 1, envelope = NULL WHERE seq = ?", (seq,)).fetchall()
    )


# Streams.


async def test_streams_are_listed_by_name_and_page_by_page(client: Client) -> None:
    for name in ("b", "a/b", "c/d/e"):
        await client.enqueue("e-1", name)
    assert await get(client, "v1/streams") == {"streams": ["a/b", "b", "c/d/e"], "next": None}
    assert await get(client, "v1/streams?limit=2") == {"streams": ["a/b", "b"], "next": "b"}
    assert await get(client, "v1/streams?limit=2&after=b") == {"streams": ["c/d/e"], "next": None}
    assert await get(client, "v1/streams?limit=3") == {"streams": ["a/b", "b", "c/d/e"], "next": None}


@pytest.mark.parametrize("name", ["one", STREAM, "1/2/3/4/5/6/7/8", "a/stats", "a/events"])
async def test_the_figures_of_a_stream_with_any_name_are_found(client: Client, name: str) -> None:
    await client.enqueue("e-1", name)
    figures = await get(client, f"v1/streams/{name}/stats")
    assert {"depth", "inflight", "rateIn", "rateOut", "latP50", "latP95", "lastTs"} <= figures.keys()
    assert (figures["depth"], figures["inflight"]) == (1, 0)
    assert (await get(client, f"v1/streams/{quote(name, safe='')}/stats")).keys() == figures.keys()


async def test_a_stream_that_is_not_there_has_no_figures(client: Client) -> None:
    assert_error(await client.get("v1/streams/nowhere/stats"), 404, "unknown_stream")
    assert_error(await client.get("v1/streams/a%20b/stats"), 400, "invalid_request")


# Events.


async def test_browsing_shows_every_event_of_the_stream_in_order_and_consumes_none(client: Client) -> None:
    await client.enqueue_all("e-1", "e-2")
    await client.enqueue("other", "other")
    await client.enqueue("e-3")
    for _ in range(2):
        page = await get(client, f"v1/streams/{STREAM}/events")
        assert [(event["seq"], event["id"]) for event in page["events"]] == [(1, "e-1"), (2, "e-2"), (4, "e-3")]
        assert page["next"] is None
    async with client.subscribe() as subscriber:
        await subscriber.credit(3)
        assert await subscriber.ids(3) == ["e-1", "e-2", "e-3"]


async def test_an_event_is_shown_in_its_state(app: App, client: Client) -> None:
    await client.enqueue_all("done", "held", "waiting")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        await subscriber.ids(2)
        await subscriber.ack("done")
        await subscriber.settled()
        await stored(app)
        events = (await get(client, f"v1/streams/{STREAM}/events"))["events"]
    assert [(event["state"], event["leased"]) for event in events] == [
        ("processed", False),
        ("pending", True),
        ("pending", False),
    ]
    assert events[0]["source"] == f"stream:{STREAM}"
    assert (events[0]["attempts"], events[0]["reason"], events[0]["redrivenAs"]) == (1, None, None)


async def test_pages_of_events_go_on_where_the_one_before_ended(client: Client) -> None:
    for number in range(1, 8):
        await client.enqueue(f"e-{number}", "odd" if number % 2 else "even")
    found, following = [], 1
    while following is not None:
        page = await get(client, f"v1/streams/odd/events?limit=2&from={following}")
        found.append([event["seq"] for event in page["events"]])
        following = page["next"]
    assert found == [[1, 3], [5, 7]]
    assert await get(client, "v1/streams/odd/events?from=8") == {"events": [], "next": None}


async def test_a_page_looks_at_a_bounded_part_of_the_ledger_and_says_where_to_go_on(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.journal.browse.BROWSE_ROWS_MAX", 3)
    for number in range(1, 8):
        await client.enqueue(f"e-{number}", "rare" if number == 7 else "common")
    assert await get(client, "v1/streams/rare/events") == {"events": [], "next": 4}
    assert await get(client, "v1/streams/rare/events?from=4") == {"events": [], "next": 7}
    page = await get(client, "v1/streams/rare/events?from=7")
    assert ([event["seq"] for event in page["events"]], page["next"]) == ([7], None)


async def test_a_page_holds_a_bounded_number_of_bytes_but_at_least_one_event(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(raw_envelope("e-1"))
    await client.post(raw_body(raw_envelope("e-1")))
    await client.post(raw_body(raw_envelope("e-2")))
    for bound, shown, following in ((2 * size, [1, 2], None), (2 * size - 1, [1], 2), (size - 1, [1], 2)):
        monkeypatch.setattr("broker.journal.browse.BROWSE_BYTES_MAX", bound)
        page = await get(client, f"v1/streams/{STREAM}/events")
        assert ([event["seq"] for event in page["events"]], page["next"]) == (shown, following)


async def test_envelopes_are_shown_byte_for_byte(client: Client) -> None:
    for number, payload in enumerate(AWKWARD_PAYLOADS):
        await client.post(raw_body(raw_envelope(f"e-{number}", payload)))
    async with client.session.get(f"v1/streams/{STREAM}/events") as response:
        content = await response.read()
    for number, payload in enumerate(AWKWARD_PAYLOADS):
        assert raw_envelope(f"e-{number}", payload) in content


async def test_emptied_and_damaged_events_are_shown_as_such(app: App, client: Client) -> None:
    await client.enqueue_all("e-1", "e-2")
    await empty(app, 1)
    await app.journal.execute(lambda c: c.execute("UPDATE ledger SET envelope = x'7b' WHERE seq = 2").fetchall())
    events = (await get(client, f"v1/streams/{STREAM}/events"))["events"]
    assert [(e["emptied"], e["corrupt"], e["envelope"]) for e in events] == [(True, False, None), (False, True, None)]
    assert (await get(client, receipt_path("e-1")))["emptied"] is True


@pytest.mark.parametrize(("name", "low", "high"), [("limit", 1, PAGE_LIMIT_MAX), ("from", 1, SEQ_MAX)])
async def test_a_number_of_the_query_is_taken_between_its_bounds_only(
    client: Client, name: str, low: int, high: int
) -> None:
    path = f"v1/streams/{STREAM}/events?{name}="
    for number in (low, low + 1, high - 1, high):
        assert (await client.get(f"{path}{number}")).status == 200
    for text in (low - 1, high + 1, "", "x", "1.0", "-1", "1" * 5000, "%EF%BC%91"):
        message = assert_error(await client.get(f"{path}{text}"), 400, "invalid_request")
        assert message.startswith(f"{name} must be a whole number from {low} to {high}, not ")


async def test_a_query_that_is_not_known_is_refused(client: Client) -> None:
    message = assert_error(await client.get("v1/streams?limt=1"), 400, "invalid_request")
    assert message == "/v1/streams knows no query 'limt'; it knows after, limit"


# Receipts.


async def test_a_receipt_tells_that_an_event_was_accepted_and_how_often(client: Client) -> None:
    await client.enqueue("e-1")
    await client.enqueue("e-1")
    await client.enqueue("e-1", payload="other")
    receipt = await get(client, receipt_path("e-1"))
    expected = {"source": f"stream:{STREAM}", "id": "e-1", "seq": 1, "stream": STREAM, "state": "pending"}
    assert expected.items() <= receipt.items()
    assert (receipt["duplicates"], receipt["payloadConflicts"], receipt["leased"]) == (2, 1, False)
    assert receipt["processedAt"] is None


async def test_a_receipt_follows_an_event_through_its_life(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"maxDeliveries": 1}})
    client = await connect(app.server.address)
    await client.enqueue_all("e-1", "e-2")
    async with client.subscribe() as subscriber:
        await subscriber.credit(2)
        await subscriber.ids(2)
        assert (await get(client, receipt_path("e-1")))["leased"] is True
        await subscriber.ack("e-1")
        await subscriber.send(nack="e-2")
        await subscriber.settled()
    await stored(app)
    first, second = await get(client, receipt_path("e-1")), await get(client, receipt_path("e-2"))
    assert (first["state"], first["leased"], first["reason"]) == ("processed", False, None)
    assert first["processedAt"] >= first["receivedAt"]
    assert second["state"] == "dead_letter"
    assert second["reason"] == "refused by its consumer; 1 deliveries, none acknowledged"
    assert (await client.request("POST", "v1/dead-letters/2/replay")).body == {"seq": 2, "redrivenAs": 3}
    assert (await get(client, receipt_path("e-2")))["redrivenAs"] == 3
    assert (await get(client, "v1/receipts/redrive:2/e-2"))["seq"] == 3


@pytest.mark.parametrize("event_id", ["a/b", "a b", "%2F", "{x}", "ü?#&", "a:b", "100%", "..x"])
async def test_an_id_with_any_character_has_a_receipt(client: Client, event_id: str) -> None:
    await client.post(raw_body(raw_envelope(event_id)))
    url = URL(f"{client.session._base_url}{receipt_path(event_id)}", encoded=True)
    async with client.session.get(url) as response:
        assert response.status == 200, await response.text()
        assert json.loads(await response.read())["id"] == event_id


async def test_what_was_never_accepted_has_no_receipt(client: Client) -> None:
    for path in (receipt_path("never"), "v1/receipts/local/never", "v1/receipts/%00/%FF"):
        assert_error(await client.get(path), 404, "not_found")


# Who may see what.


async def test_a_caller_sees_only_what_it_may_subscribe_to(start_app: StartApp, connect: Connect) -> None:
    tokens = [
        {"token": "all", "scopes": ["streams:*:enqueue"]},
        {"token": "some", "name": "some", "scopes": ["streams:mine/*:subscribe"]},
    ]
    app = await start_app({"auth": {"tokens": tokens}})
    writer = await connect(app.server.address, headers={"Authorization": "Bearer all"})
    client = await connect(app.server.address, headers={"Authorization": "Bearer some"})
    await writer.enqueue("e-1", "mine/a")
    await writer.enqueue("e-1", "theirs/a")
    await app.journal.execute(
        lambda c: c.execute("UPDATE ledger SET source_system = 'elsewhere' WHERE seq = 2").fetchall()
    )
    assert (await get(client, "v1/streams"))["streams"] == ["mine/a"]
    for path in ("v1/streams/mine/a/stats", "v1/streams/mine/a/events", receipt_path("e-1", "mine/a")):
        assert (await client.get(path)).status == 200
    for path in ("v1/streams/theirs/a/stats", "v1/streams/theirs/a/events", receipt_path("e-1", "theirs/a")):
        message = assert_error(await client.get(path), 403, "forbidden")
        assert message == "the token 'some' lacks the scope streams:theirs/a:subscribe"
    assert_error(await client.get("v1/receipts/elsewhere/e-1"), 404, "not_found")

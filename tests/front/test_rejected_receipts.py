"""Receipts of what was refused: found by identity and in lists, by those whose it is."""

import json
from typing import Any

import pytest

from broker.limits import PAGE_LIMIT_MAX
from tests.conftest import Connect, StartApp
from tests.support import pixel
from tests.support.client import JSON, Client, assert_error

BAD = {"event_id": "evt_1", "type": "t"}
TOKENS = [
    {"name": "plugin", "token": "plugin", "scopes": ["streams:**:enqueue", "devices:*"]},
    {"name": "other", "token": "other", "scopes": ["streams:**:enqueue", "streams:**:subscribe", "devices:*"]},
    {"name": "op", "token": "op", "scopes": ["admin:*"]},
]


async def refuse(client: Client, body: Any = BAD) -> None:
    answer = await client.request("POST", "v1/events", data=json.dumps(body).encode(), headers=JSON)
    assert answer.status == 400, answer


async def listed(client: Client, query: str = "") -> list[Any]:
    answer = await client.get(f"v1/receipts?status=rejected{query}")
    assert answer.status == 200, answer
    found: list[Any] = answer.body["receipts"]
    return found


async def test_what_was_refused_has_a_receipt_that_says_why(client: Client) -> None:
    await refuse(client)
    answer = await client.get("v1/receipts/local/evt_1")
    assert answer.status == 200
    received_at = answer.body.pop("receivedAt")
    assert answer.body == {
        "number": 1, "source": "local", "id": "evt_1", "contract": "skyra", "state": "rejected",
        "code": "invalid_envelope", "message": "envelope: Object missing required field `ts`", "eventId": "evt_1",
        "eventName": None, "schemaVersion": None, "body": json.dumps(BAD),
    }  # fmt: skip
    assert await listed(client) == [{**answer.body, "receivedAt": received_at}]
    assert_error(await client.get("v1/receipts/local/evt_2"), 404, "not_found")


async def test_the_last_refusal_counts_until_the_event_is_accepted(client: Client) -> None:
    await refuse(client)
    await refuse(client, {**BAD, "ts": "yesterday"})
    answer = await client.get("v1/receipts/local/evt_1")
    assert (answer.body["number"], "RFC3339" in answer.body["message"]) == (2, True), answer.body
    whole = {**BAD, "ts": "2026-02-16T23:10:21Z", "session_id": "s", "device_id": "d", "payload": {}}
    await client.request("POST", "v1/events", data=json.dumps(whole).encode(), headers=JSON)
    answer = await client.get("v1/receipts/local/evt_1")
    assert (answer.body["state"], answer.body["seq"]) == ("pending", 1)
    assert [each["id"] for each in await listed(client)] == ["evt_1", "evt_1"]


async def test_a_refused_plugin_event_keeps_its_facts(client: Client) -> None:
    event = pixel.numbered(1)
    body = json.loads(event) if isinstance(event, bytes | str) else json.loads(json.dumps(event))
    body["envelope"]["schema_version"] = "2026-02-19.2"
    await pixel.post(client, json.dumps(body).encode())
    key = body["envelope"]["idempotency_key"]
    answer = await client.get(f"v1/receipts/local/{key}")
    found = {name: answer.body[name] for name in ("contract", "code", "eventId", "eventName", "schemaVersion")}
    assert found == {
        "contract": "pixel",
        "code": "schema_version_unsupported",
        "eventId": body["envelope"]["event_id"],
        "eventName": body["envelope"]["event_name"],
        "schemaVersion": "2026-02-19.2",
    }


async def test_bytes_that_are_no_text_are_shown_as_far_as_they_are(client: Client) -> None:
    await client.request("POST", "v1/events", data=b'{"event_id": "\xff', headers=JSON)
    (found,) = await listed(client)
    assert (found["id"], found["body"]) == (None, '{"event_id": "\ufffd')


async def test_refusals_are_listed_page_by_page_and_by_source(client: Client) -> None:
    for number in range(5):
        await refuse(client, {**BAD, "event_id": f"evt_{number}"})
    pages = []
    after: int | None = 0
    while after is not None:
        answer = await client.get(f"v1/receipts?status=rejected&limit=2&after={after}")
        pages.append([each["id"] for each in answer.body["receipts"]])
        after = answer.body["next"]
    assert pages == [["evt_0", "evt_1"], ["evt_2", "evt_3"], ["evt_4"]]
    assert len(await listed(client, "&source=local")) == 5
    assert await listed(client, "&source=elsewhere") == []


async def test_each_sees_its_own_and_an_operator_all(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"auth": {"tokens": TOKENS}})
    plugin, other, op = [
        await connect(app.server.address, headers={"Authorization": f"Bearer {each['token']}"}) for each in TOKENS
    ]
    await refuse(plugin)
    await refuse(other, {**BAD, "event_id": "evt_2"})
    assert [each["id"] for each in await listed(plugin)] == ["evt_1"]
    assert [each["id"] for each in await listed(other, "&source=other")] == ["evt_2"]
    assert [each["source"] for each in await listed(op)] == ["plugin", "other"]
    assert [each["source"] for each in await listed(op, "&source=other")] == ["other"]
    assert_error(await other.get("v1/receipts?status=rejected&source=plugin"), 403, "forbidden")
    assert_error(await other.get("v1/receipts/plugin/evt_1"), 404, "not_found")
    assert (await op.get("v1/receipts/plugin/evt_1")).body["state"] == "rejected"


@pytest.mark.parametrize(
    "query",
    ["", "?status=processed", "?status=rejected&limit=0", f"?status=rejected&limit={PAGE_LIMIT_MAX + 1}",
     "?status=rejected&after=-1", "?status=rejected&stream=s"],
)  # fmt: skip
async def test_what_is_not_asked_rightly_is_refused(client: Client, query: str) -> None:
    assert_error(await client.get(f"v1/receipts{query}"), 400, "invalid_request")

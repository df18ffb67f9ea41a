"""`/v1/schedule` and `/v1/recurring`: what is put off over HTTP, looked at, and cancelled."""

import json
from typing import Any

import pytest

from broker.app import App
from broker.clock import ManualClock
from tests.conftest import Connect, StartApp
from tests.support.client import JSON
from tests.support.client import Client as OverHttp
from tests.support.writer import eventually, stored

START = 1_771_525_800_000_000  # 2026-02-19T18:30:00Z


def envelope(event_id: str = "e-1", to: str = "jobs", payload: Any = 1) -> dict[str, Any]:
    return {"id": event_id, "ts": "2026-02-19T18:00:00Z", "to": to, "type": "t", "payload": payload}


class Client:
    """Asks, and has the status and the document of each answer."""

    def __init__(self, over_http: OverHttp) -> None:
        self._over_http = over_http

    async def _ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        data = None if document is None else json.dumps(document)
        answer = await self._over_http.request(method, path, data=data, headers=None if data is None else JSON)
        return answer.status, answer.body

    async def get(self, path: str) -> tuple[int, Any]:
        return await self._ask("GET", path)

    async def post(self, path: str, document: Any) -> tuple[int, Any]:
        return await self._ask("POST", path, document)

    async def put(self, path: str, document: Any) -> tuple[int, Any]:
        return await self._ask("PUT", path, document)

    async def delete(self, path: str) -> tuple[int, Any]:
        return await self._ask("DELETE", path)


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    return Client(await connect(app.server.address))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_us=START)


@pytest.fixture
async def app(start_app: StartApp, clock: ManualClock) -> App:
    return await start_app(clock=clock)


async def test_an_envelope_is_put_off_and_becomes_the_event_that_it_would_have_been(
    app: App, client: Client, clock: ManualClock
) -> None:
    answer = await client.post("v1/schedule", {"to": "jobs", "envelope": envelope(), "delayMs": 5_000})
    assert answer == (200, {"id": 1, "status": "scheduled", "fireAt": "2026-02-19T18:30:05.000Z", "duplicate": False})
    assert await stored(app) == []
    clock.advance(5_000)
    app.core.scheduler.look()
    await eventually(lambda: app.core.scheduler.tally.fired == 1)
    assert await stored(app, "source_system, source_event_id, stream") == [("stream:jobs", "e-1", "jobs")]
    status, shown = await client.get("v1/schedule/1")
    assert (status, shown["status"], shown["seq"], shown["envelope"]) == (200, "fired", 1, envelope())


async def test_a_topic_and_a_payload_are_put_off_until_a_moment(app: App, client: Client, clock: ManualClock) -> None:
    body = {"topic": "reminder.due", "payload": {"text": "x"}, "correlationId": "c", "at": "2026-02-19T19:31:00+01:00"}
    status, answer = await client.post("v1/schedule", body)
    assert (status, answer["fireAt"]) == (200, "2026-02-19T18:31:00.000Z")
    clock.advance(60_000)
    app.core.scheduler.look()
    await eventually(lambda: app.core.scheduler.tally.fired == 1)
    assert await stored(app, "source_system, stream, correlation_id, envelope") == [
        ("bus:local", "topics/reminder.due", "c", b'{"text": "x"}')
    ]


async def test_a_post_that_is_repeated_puts_off_nothing_more(client: Client) -> None:
    for body in ({"to": "jobs", "envelope": envelope(), "delayMs": 5_000},
                 {"topic": "t", "payload": {}, "key": "k", "delayMs": 5_000}):  # fmt: skip
        _, first = await client.post("v1/schedule", body)
        _, again = await client.post("v1/schedule", {**body, "delayMs": 9_000})
        assert again == {**first, "duplicate": True}
    _, other = await client.post("v1/schedule", {"to": "jobs", "envelope": envelope(payload=2), "delayMs": 1})
    assert (other["duplicate"], other["payloadConflict"]) == (True, True)
    _, listed = await client.get("v1/schedule")
    assert [each["eventId"] for each in listed["deferred"]] == ["e-1", "key:k"]


BODY = {"to": "jobs", "envelope": envelope(), "delayMs": 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "say when"),
        ({"delayMs": 1}, "say what"),
        ({**BODY, "at": "2026-02-19T19:31:00Z"}, "say when: either"),
        ({"to": "jobs", "envelope": envelope()}, "say when: either"),
        ({**BODY, "delayMs": -1}, "at `$.delayMs`"),
        ({**BODY, "delayMs": 2**62}, "at `$.delayMs`"),
        ({"to": "jobs", "envelope": envelope(), "at": "2026-02-19T19:31:00"}, "the body: "),
        ({**BODY, "to": "other"}, "they must agree"),
        ({**BODY, "to": "a b"}, "to: segment 1"),
        ({**BODY, "key": "k"}, '"key" is for topics'),
        ({**BODY, "topic": "t"}, '"topic" goes with'),
        ({"to": "jobs", "delayMs": 1}, '"to" and "envelope" go together'),
        ({"topic": "t", "delayMs": 1}, "say what"),
        ({"topic": "t", "payload": [], "delayMs": 1}, "payload: it must be an object"),
        ({"topic": "", "payload": {}, "delayMs": 1}, "topic: it is empty"),
        ({"topic": "t", "payload": {}, "key": "", "delayMs": 1}, "key: it is empty"),
        ({"topic": "t", "payload": {}, "key": "k" * 256, "delayMs": 1}, "key: it is 256 bytes long"),
        ({**BODY, "delay": 1}, "unknown field `delay`"),
    ],
)
async def test_what_cannot_be_put_off_is_refused_with_its_reason(
    client: Client, body: dict[str, Any], reason: str
) -> None:
    status, answer = await client.post("v1/schedule", body)
    assert status == 400
    assert reason in answer["error"]["message"]


async def test_what_waits_is_listed_page_by_page_the_next_one_first(client: Client) -> None:
    for n, delay in enumerate((30, 10, 20, 10)):
        to = "jobs" if n else "other"
        await client.post("v1/schedule", {"to": to, "envelope": envelope(f"e-{n}", to), "delayMs": delay})
    seen, after = [], ""
    while True:
        _, page = await client.get(f"v1/schedule?limit=3{after}")
        seen += [each["eventId"] for each in page["deferred"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == ["e-1", "e-3", "e-2", "e-0"]
    _, page = await client.get("v1/schedule?stream=oth*er")
    assert "mixes * with text" in page["error"]["message"]
    _, page = await client.get("v1/schedule?stream=other")
    assert [each["eventId"] for each in page["deferred"]] == ["e-0"]
    status, _ = await client.get("v1/schedule?after=7")
    assert status == 400


async def test_a_cancellation_says_whether_it_did_it(client: Client) -> None:
    await client.post("v1/schedule", {**BODY, "delayMs": 5_000})
    assert await client.delete("v1/schedule/1") == (200, {"id": 1, "cancelled": True, "status": "cancelled"})
    assert await client.delete("v1/schedule/1") == (200, {"id": 1, "cancelled": False, "status": "cancelled"})
    for what in ("2", "0", "x", "9" * 30):
        status, answer = await client.delete(f"v1/schedule/{what}")
        assert (status, answer["error"]["code"]) == (404, "not_found")


TOKENS = {
    "auth": {
        "tokens": [
            {"name": "jobs", "token": "tkn-of-jobs-0123456789", "scopes": ["streams:jobs:enqueue"]},
            {"name": "reads", "token": "tkn-reads-01234567890", "scopes": ["streams:jobs:subscribe"]},
            {"name": "other", "token": "tkn-other-01234567890", "scopes": ["streams:other:enqueue"]},
        ]
    }
}


async def test_who_may_enqueue_may_put_off_and_cancel_and_only_a_subscriber_sees_what(
    start_app: StartApp, connect: Connect, clock: ManualClock
) -> None:
    app = await start_app(TOKENS, clock=clock)
    jobs, reads, other = [
        Client(await connect(app.server.address, headers={"Authorization": f"Bearer {each['token']}"}))
        for each in TOKENS["auth"]["tokens"]
    ]
    assert (await jobs.post("v1/schedule", {**BODY, "delayMs": 5_000}))[0] == 200
    assert (await reads.post("v1/schedule", BODY))[0] == 403
    assert (await other.post("v1/schedule", BODY))[0] == 403
    assert (await jobs.get("v1/schedule/1"))[1]["envelope"] is None
    assert (await reads.get("v1/schedule/1"))[1]["envelope"] == envelope()
    assert (await other.get("v1/schedule/1"))[0] == 404
    assert (await other.get("v1/schedule"))[1] == {"deferred": [], "next": None}
    assert (await other.delete("v1/schedule/1"))[0] == 404
    assert (await reads.delete("v1/schedule/1"))[0] == 403
    assert (await jobs.delete("v1/schedule/1"))[1]["cancelled"] is True
    put = {"to": "jobs", "payload": 1, "everyMs": 60_000}
    assert (await jobs.put("v1/recurring/poll", put))[0] == 200
    assert (await reads.put("v1/recurring/poll", put))[0] == 403
    assert (await other.get("v1/recurring/poll"))[0] == 404
    assert (await other.get("v1/recurring"))[1] == {"recurring": []}
    assert (await reads.delete("v1/recurring/poll"))[0] == 403
    assert (await jobs.delete("v1/recurring/poll"))[0] == 200


async def test_something_recurs_over_http_until_it_is_deleted(app: App, client: Client, clock: ManualClock) -> None:
    body = {"to": "jobs", "payload": {"big": 2**70}, "from": "me", "cron": "0 9 * * *", "tz": "Europe/Berlin"}
    status, shown = await client.put("v1/recurring/daily", body)
    assert (status, shown) == (200, {
        "name": "daily", "stream": "jobs", "cron": "0 9 * * *", "tz": "Europe/Berlin", "everyMs": None,
        "missed": "once", "nextAt": "2026-02-20T08:00:00.000Z", "lastAt": None, "error": None,
    })  # fmt: skip
    status, answer = await client.delete("v1/schedule/1")
    assert (status, answer["error"]["code"]) == (409, "in_use")
    clock.advance(24 * 3600 * 1000)
    app.core.scheduler.look()
    await eventually(lambda: app.core.scheduler.tally.fired == 1)
    (found,) = await stored(app, "envelope")
    assert found.endswith(b'"to":"jobs","type":"message","from":"me","payload":{"big": 1180591620717411303424}}')
    assert (await client.get("v1/recurring"))[1]["recurring"][0]["nextAt"] == "2026-02-21T08:00:00.000Z"
    assert await client.delete("v1/recurring/daily") == (200, {"name": "daily", "deleted": True})
    assert (await client.get("v1/recurring/daily"))[0] == 404
    assert (await client.get("v1/schedule"))[1]["deferred"] == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"payload": 1, "everyMs": 1_000}, "say where to"),
        ({"to": "jobs", "payload": 1}, "say when"),
        ({"to": "jobs", "payload": 1, "everyMs": 1}, "everyMs must be from"),
        ({"to": "jobs", "payload": 1, "cron": "x"}, "five fields"),
        ({"to": "a b", "payload": 1, "everyMs": 1_000}, "to: segment"),
        ({"to": "jobs", "payload": 1, "everyMs": 1_000, "type": ""}, "type: it is empty"),
        ({"to": "jobs", "payload": 1, "everyMs": 1_000, "correlationId": "c"}, '"correlationId" goes with "topic"'),
        ({"topic": "t", "payload": 1, "everyMs": 1_000}, "payload: it must be an object"),
        ({"topic": "t", "payload": {}, "everyMs": 1_000, "type": "x"}, '"type" goes with a stream'),
        ({"topic": "t", "payload": {}, "everyMs": 1_000, "missed": "never"}, "missed"),
    ],
)
async def test_what_cannot_recur_is_refused_with_its_reason(client: Client, body: dict[str, Any], reason: str) -> None:
    status, answer = await client.put("v1/recurring/x", body)
    assert status == 400
    assert reason in answer["error"]["message"]

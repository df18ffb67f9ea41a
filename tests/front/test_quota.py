"""Token buckets over HTTP and WebSocket."""

import json
from typing import Any

import pytest

from broker.app import App
from broker.clock import ManualClock
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import STREAM, body
from tests.support.writer import stored

RATED = {
    "auth": {
        "tokens": [
            {"token": "few", "name": "few", "scopes": ["streams:*:enqueue"], "rate": {"perSecond": 0.5, "burst": 2}},
            {"token": "many", "name": "many", "scopes": ["streams:*:enqueue"]},
        ]
    },
    "streams": {"perStreamCaps": {"rated/**": {"rate": {"perSecond": 1, "burst": 3}}}},
}
FEW, MANY = {"Authorization": "Bearer few"}, {"Authorization": "Bearer many"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(start_app: StartApp, clock: ManualClock) -> App:
    return await start_app(RATED, clock=clock)


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    return await connect(app.server.address)


async def test_past_its_bucket_a_token_is_over_quota_until_the_told_time_has_passed(
    app: App, client: Client, clock: ManualClock
) -> None:
    for number in range(2):
        assert (await client.post(body(f"e-{number}"), FEW)).status == 200
    answer = await client.post(body("e-2"), FEW)
    message = assert_error(
        answer,
        429,
        "over_quota",
        retryable=True,
        retry_after_seconds=2,
        bucket="token",
        remaining=0,
        limit=0.5,
        burst=2,
    )
    assert message.startswith("the token 'few' may take 0.5 events a second, and 2 at once; 0 are left now: wait 2 s")
    assert (await client.post(body("e-m"), MANY)).status == 200
    clock.advance(1999)
    assert (await client.post(body("e-2"), FEW)).status == 429
    clock.advance(1)
    assert (await client.post(body("e-2"), FEW)).status == 200
    assert await stored(app) == ["e-0", "e-1", "e-m", "e-2"]


async def test_a_token_that_is_over_quota_makes_no_streams(app: App, client: Client) -> None:
    for number in range(2):
        await client.post(body(f"e-{number}"), FEW)
    assert (await client.post(body("e-2", "never/made"), FEW)).status == 429
    assert app.registry.find("never/made") is None


async def test_what_is_refused_for_another_reason_costs_nothing(client: Client) -> None:
    for _ in range(5):
        assert (await client.post(b"{}", FEW)).status == 400
    for number in range(2):
        assert (await client.post(body(f"e-{number}"), FEW)).status == 200


async def test_each_stream_has_a_bucket_whoever_sends(client: Client) -> None:
    for stream in ("rated/a", "rated/b/c"):
        for number in range(3):
            assert (await client.post(body(f"e-{number}", stream), MANY)).status == 200
        answer = await client.post(body("e-3", stream), MANY)
        detail = {"bucket": "stream", "remaining": 0, "limit": 1.0, "burst": 3}
        assert stream in assert_error(answer, 429, "over_quota", retryable=True, **detail)
    assert (await client.post(body("e-4"), MANY)).status == 200


async def test_on_a_publishing_socket_every_event_of_a_frame_is_charged(app: App, client: Client) -> None:
    async with client.session.ws_connect("v1/publish", headers=FEW) as socket:
        assert "window" in await socket.receive_json()
        await socket.send_str("[" + ",".join(body(f"e-{number}").decode() for number in range(4)) + "]")
        answers: list[dict[str, Any]] = [json.loads((await socket.receive()).data) for _ in range(4)]
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert [(error["code"], error["bucket"]) for error in refused] == [("over_quota", "token")] * 2
    assert [answer["ack"] for answer in answers if "ack" in answer] == ["e-0", "e-1"]
    assert await stored(app, where=f"stream = '{STREAM}'") == ["e-0", "e-1"]

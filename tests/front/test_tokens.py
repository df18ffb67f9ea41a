"""Tokens and scopes, over HTTP and WebSocket."""

import hashlib

import aiohttp
import pytest

from broker.app import App
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import STREAM, body
from tests.support.writer import stored

DIGEST = hashlib.sha256(b"hashed-secret").hexdigest()
TOKENS = [
    {"token": "producer-secret", "name": "producer", "scopes": ["streams:agents/*/inbox:enqueue"]},
    {"tokenHash": f"sha256:{DIGEST}", "name": "consumer", "scopes": ["streams:agents/**:subscribe"]},
    {"token": "all-secret", "scopes": ["streams:*:enqueue", "streams:*:subscribe"]},
]


@pytest.fixture
async def app(start_app: StartApp) -> App:
    return await start_app({"auth": {"tokens": TOKENS}})


@pytest.fixture
async def client(app: App, connect: Connect) -> Client:
    return await connect(app.server.address)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def api_key(token: str) -> dict[str, str]:
    return {"X-Pixel-Control-Api-Key": token}


async def test_a_token_is_taken_in_either_header(client: Client) -> None:
    assert (await client.post(body("e-1"), bearer("producer-secret"))).status == 200
    assert (await client.post(body("e-2"), api_key("producer-secret"))).status == 200
    for header in (bearer, api_key):
        async with client.subscribe(headers=header("hashed-secret")) as subscriber:
            await subscriber.credit(2)
            assert await subscriber.ids(2) == ["e-1", "e-2"]


async def test_without_a_token_or_with_a_wrong_one_it_is_unauthorized(app: App, client: Client) -> None:
    for headers in ({}, bearer("wrong"), api_key("wrong"), bearer(DIGEST), {"Authorization": "Basic eDp5"}):
        assert_error(await client.post(body(), headers), 401, "unauthorized")
        assert_error(await client.get(f"v1/subscribe?stream={STREAM}", headers), 401, "unauthorized")
        assert_error(await client.get("nowhere", headers), 401, "unauthorized")
    assert await stored(app) == []
    assert app.registry.find(STREAM) is None


async def test_without_the_scope_it_is_forbidden_and_the_scope_is_named(app: App, client: Client) -> None:
    for token, name, to in [
        ("producer-secret", "producer", "agents/Jen/outbox"),
        ("producer-secret", "producer", "agents/Jen/inbox/x"),
        ("hashed-secret", "consumer", STREAM),
    ]:
        message = assert_error(await client.post(body(to=to), bearer(token)), 403, "forbidden")
        assert message == f"the token '{name}' lacks the scope streams:{to}:enqueue"
    answer = await client.get("v1/subscribe?stream=other", bearer("hashed-secret"))
    message = assert_error(answer, 403, "forbidden")
    assert message == "the token 'consumer' lacks the scope streams:other:subscribe"
    assert await stored(app) == []


async def test_a_star_covers_every_stream(client: Client) -> None:
    for to in ("a", "a/b/c", STREAM):
        assert (await client.post(body(to=to), bearer("all-secret"))).status == 200
        async with client.subscribe(to, bearer("all-secret")) as subscriber:
            await subscriber.credit(1)
            assert await subscriber.ids(1) == ["e-1"]


async def test_a_refused_subscription_does_not_become_a_socket(client: Client) -> None:
    for headers, status in (({}, 401), (bearer("producer-secret"), 403)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.session.ws_connect("v1/subscribe", params={"stream": STREAM}, headers=headers)
        assert refused.value.status == status


async def test_no_answer_repeats_a_token(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    for headers in (bearer("wrong-secret"), api_key("wrong-secret"), bearer("producer-secret")):
        answer = await client.post(body(to="other"), headers)
        assert "secret" not in str(answer.body)
    assert "secret" not in caplog.text

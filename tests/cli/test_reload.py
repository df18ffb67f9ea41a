"""SIGHUP: the tokens of a running broker are replaced, and the sockets of those that were revoked are closed."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Connect, StartBroker
from tests.support.client import Client, Subscriber, assert_error
from tests.support.events import STREAM, body
from tests.support.process import BrokerProcess, until

BOTH = ["streams:*:enqueue", "streams:*:subscribe"]


def config(*tokens: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {"auth": {"tokens": list(tokens)}, **sections}


def token(name: str, *scopes: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "token": f"{name}-secret", "scopes": list(scopes or BOTH), **more}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-secret"}


async def reload(
    broker: BrokerProcess, text: str | dict[str, Any], says: str = "the configuration was reloaded"
) -> None:
    """Change the file, send the signal, and wait until the broker says what became of it."""
    file = broker.data.parent / f"{broker.data.name}.yaml"
    file.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    said = sum(says in line for line in broker.stderr_lines)
    broker.signal(signal.SIGHUP)
    await asyncio.to_thread(until, lambda: sum(says in line for line in broker.stderr_lines) > said)


@asynccontextmanager
async def publisher(client: Client, name: str) -> AsyncIterator[Subscriber]:
    """A publishing socket, after its first frame."""
    async with client.session.ws_connect("v1/publish", headers=bearer(name)) as socket:
        published = Subscriber(socket)
        assert "window" in await published.frame()
        yield published


@pytest.mark.parametrize(
    ("after", "code", "close_code", "message"),
    [
        (None, "unauthorized", 4401, "the token 'bad' was revoked"),
        (
            token("bad", "streams:*:subscribe"),
            "forbidden",
            4403,
            "what the token 'bad' may do has changed; connect again",
        ),
        (token("bad") | {"token": "another"}, "unauthorized", 4401, "the token 'bad' was revoked"),
    ],
    ids=["removed", "other scopes", "other secret"],
)
async def test_the_sockets_of_a_changed_token_are_closed_within_a_second_and_those_of_others_stay(
    broker_process: StartBroker,
    connect: Connect,
    after: dict[str, Any] | None,
    code: str,
    close_code: int,
    message: str,
) -> None:
    broker = broker_process(config=config(token("good"), token("bad")))
    client = await connect(broker.url)
    async with (
        client.subscribe(headers=bearer("good")) as good,
        client.subscribe(headers=bearer("bad")) as bad,
        publisher(client, "good") as good_publisher,
        publisher(client, "bad") as bad_publisher,
    ):
        started = time.monotonic()
        reloading = asyncio.create_task(
            reload(broker, config(token("new"), token("good"), *([] if after is None else [after])))
        )
        for socket in (bad, bad_publisher):
            error = await socket.error()
            assert (error["code"], error["message"]) == (code, message)
            assert await socket.close_code() == close_code
        assert time.monotonic() - started < 1
        await reloading
        await good_publisher.socket.send_str(body("e-1").decode())
        assert (await good_publisher.frame())["ack"] == "e-1"
        await good.credit(1)
        assert await good.ids(1) == ["e-1"]
    assert (await client.post(body("e-2"), bearer("bad"))).status in (401, 403)
    assert (await client.post(body("e-3"), bearer("new"))).status == 200


async def test_what_a_revoked_subscriber_held_goes_to_another(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process(config=config(token("good"), token("bad")))
    client = await connect(broker.url, headers=bearer("good"))
    await client.enqueue("e-1")
    async with client.subscribe(headers=bearer("bad")) as bad, client.subscribe() as good:
        await bad.credit(1)
        assert await bad.ids(1) == ["e-1"]
        await good.credit(1)
        await reload(broker, config(token("good")))
        assert (await good.delivery())["deliver"]["id"] == "e-1"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("auth: {tokens: [{name: a}]}", "auth.tokens[0].scopes: missing"),
        ("auth: [", "is not valid YAML"),
        ("server: {maxBodyBytes: x}", "server.maxBodyBytes: expected an integer"),
    ],
)
async def test_a_file_with_problems_changes_nothing_and_they_are_logged(
    broker_process: StartBroker, connect: Connect, text: str, problem: str
) -> None:
    broker = broker_process(config=config(token("kept")))
    client = await connect(broker.url, headers=bearer("kept"))
    async with client.subscribe() as subscriber:
        await reload(broker, text, says="the configuration was not reloaded")
        assert any(problem in line for line in broker.stderr_lines if "not reloaded" in line)
        await client.enqueue("e-1")
        await subscriber.credit(1)
        assert await subscriber.ids(1) == ["e-1"]
    await reload(broker, config(token("mended")))
    assert_error(await client.post(body("e-2")), 401, "unauthorized")
    assert broker.terminate_and_wait() == 0


async def test_other_keys_that_changed_need_a_restart_and_are_named(
    broker_process: StartBroker, connect: Connect
) -> None:
    broker = broker_process(config=config(token("kept"), log={"format": "human"}))
    changed = config(
        token("kept"),
        server={"maxBodyBytes": 2048},
        streams={"perStreamCaps": {"a": {"rate": None}}},
        log={"format": "human"},
    )
    await reload(broker, changed)
    warned = [line.split("serve ", 1)[1].strip() for line in broker.stderr_lines if "needs a restart" in line]
    assert warned == [
        f"{key} has changed in the configuration; it needs a restart"
        for key in ("server.maxBodyBytes", "streams.perStreamCaps")
    ]
    client = await connect(broker.url, headers=bearer("kept"))
    assert (await client.post(body("e-1", payload="x" * 4000))).status == 200


async def test_a_changed_rate_counts_at_once_and_closes_nothing(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process(config=config(token("kept")))
    client = await connect(broker.url, headers=bearer("kept"))
    async with client.subscribe() as subscriber:
        await client.enqueue_all("e-1", "e-2")
        await reload(broker, config(token("kept", rate={"perSecond": 0.001, "burst": 1})))
        await client.enqueue("e-3")
        assert (await client.post(body("e-4"))).status == 429
        await reload(broker, config(token("kept")))
        await client.enqueue("e-4")
        await subscriber.credit(4)
        assert await subscriber.ids(4) == ["e-1", "e-2", "e-3", "e-4"]


async def test_without_a_last_token_nobody_is_let_in(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process(config=config(token("last")))
    client = await connect(broker.url)
    await reload(broker, config())
    assert any("no tokens are left, so nobody is let in" in line for line in broker.stderr_lines)
    for headers in ({}, bearer("last")):
        assert_error(await client.post(body(), headers), 401, "unauthorized")
    assert (await client.get("livez")).status == 200


async def test_first_tokens_close_the_sockets_of_those_without(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process(config={})
    client = await connect(broker.url)
    async with client.subscribe(STREAM) as subscriber:
        await reload(broker, config(token("first")))
        assert (await subscriber.error())["code"] == "unauthorized"
        assert await subscriber.close_code() == 4401
    assert (await client.post(body(), bearer("first"))).status == 200


async def test_the_tokens_of_a_file_of_their_own_are_taken_up_too(
    broker_process: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(yaml.safe_dump([token("good"), token("bad")]))
    settings: dict[str, Any] = {"auth": {"tokensFile": str(file)}}
    broker = broker_process(config=settings)
    client = await connect(broker.url)
    async with client.subscribe(headers=bearer("bad")) as bad, client.subscribe(headers=bearer("good")) as good:
        file.write_text(yaml.safe_dump([token("good"), token("new")]))
        await reload(broker, settings)
        assert (await bad.error())["message"] == "the token 'bad' was revoked"
        assert await bad.close_code() == 4401
        assert (await client.post(body("e-1"), bearer("new"))).status == 200
        await good.credit(1)
        assert await good.ids(1) == ["e-1"]
        file.write_text("- name")
        await reload(broker, settings, says="the configuration was not reloaded")
        assert (await client.post(body("e-2"), bearer("new"))).status == 200
        moved = tmp_path / "moved.yaml"
        moved.write_text(yaml.safe_dump([token("good")]))
        await reload(broker, {"auth": {"tokensFile": str(moved)}})
    assert not [line for line in broker.stderr_lines if "needs a restart" in line]
    assert_error(await client.post(body("e-3"), bearer("new")), 401, "unauthorized")

"""The listening socket: where it may listen, and how it ends."""

import asyncio
import socket
from pathlib import Path

import pytest

from broker.app import App
from broker.errors import ConfigError
from broker.front.server import check_exposure
from tests.conftest import StartApp
from tests.support.client import Client, assert_error
from tests.support.events import STREAM, body
from tests.support.raw import deaf_subscriber, half_a_request
from tests.support.writer import eventually, held_writer


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_this_machine_needs_no_tokens(host: str) -> None:
    check_exposure(host, has_tokens=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.com", "localhost.example.com", ""])
def test_an_address_that_others_reach_needs_tokens(host: str) -> None:
    check_exposure(host, has_tokens=True)
    with pytest.raises(ConfigError, match="can be reached from other machines, but no tokens are configured"):
        check_exposure(host, has_tokens=False)


async def test_the_address_names_the_port_that_was_free(app: App) -> None:
    assert app.server.port != 0
    assert app.server.address == f"http://127.0.0.1:{app.server.port}"


async def test_an_ipv6_address_stands_in_brackets(start_app: StartApp) -> None:
    app = await start_app({"server": {"host": "::1"}})
    assert app.server.address == f"http://[::1]:{app.server.port}"


async def test_a_port_in_use_is_a_problem_of_the_configuration_and_leaves_nothing_behind(
    start_app: StartApp, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            await start_app({"server": {"port": port}})
    assert f"cannot listen on 127.0.0.1:{port}" in refused.value.problems[0]
    assert "address already in use" in refused.value.problems[0]
    await start_app()  # the data directory is free again


async def test_a_host_that_is_no_address_is_a_problem_of_the_configuration(start_app: StartApp) -> None:
    tokens = {"tokens": [{"token": "t", "scopes": ["streams:*:enqueue"]}]}
    with pytest.raises(ConfigError) as refused:
        await start_app({"server": {"host": "nowhere.invalid"}, "auth": tokens})
    assert refused.value.problems[0].startswith("server.host: 'nowhere.invalid' is not an address: ")


async def test_a_draining_broker_acknowledges_what_it_has_and_refuses_the_rest(app: App, client: Client) -> None:
    async with half_a_request(app.server.port, body("e-2")) as the_rest, held_writer(app) as release:
        waiting = asyncio.create_task(client.enqueue("e-1"))
        await eventually(lambda: app.journal.queued == 1)
        draining = asyncio.create_task(app.drain())
        await eventually(lambda: app.gate.draining)
        answer = await the_rest()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"draining"' in answer
        assert b"Retry-After: 1\r\n" in answer
        release.set()
        assert (await waiting)["duplicate"] is False
        await draining


async def test_a_draining_broker_takes_no_new_connections(app: App) -> None:
    async with half_a_request(app.server.port, body("e-1")) as the_rest:
        draining = asyncio.create_task(app.drain())
        async with asyncio.timeout(5):  # long before the drain gives up on that request
            await eventually(lambda: not app.server.is_listening)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", app.server.port)
        await the_rest()
        await draining


async def test_subscribers_are_told_that_the_broker_goes_away(app: App, client: Client) -> None:
    async with client.subscribe() as one, client.subscribe() as two:
        await app.drain()
        assert [await one.close_code(), await two.close_code()] == [1001, 1001]


async def test_who_subscribes_while_the_broker_drains_is_refused(app: App, client: Client) -> None:
    await app._subscribe.close()
    assert_error(await client.get(f"v1/subscribe?stream={STREAM}"), 503, "draining", retryable=True)


async def test_a_subscriber_that_does_not_read_does_not_hold_up_the_drain(app: App, client: Client) -> None:
    for number in range(32):
        await client.enqueue(f"e-{number}", payload="x" * 500_000)
    async with deaf_subscriber(app, credit=32):
        await eventually(lambda: app.registry.find(STREAM).in_flight == 32)
        async with asyncio.timeout(5):
            await app.drain()

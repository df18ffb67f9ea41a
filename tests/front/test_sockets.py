"""Sockets that are refused after they were let in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from broker.admission.auth import Authenticator
from broker.app import App
from broker.config import Auth, Token
from broker.config import Server as ServerConfig
from broker.errors import Forbidden, InvalidRequest
from broker.front.guard import Guard
from broker.front.server import Server
from broker.front.sockets import CLOSE_REASON_BYTES_MAX, OpenSockets, refuse
from tests.conftest import Connect
from tests.support.client import Client, Subscriber, assert_error
from tests.support.events import STREAM, body
from tests.support.raw import deaf_subscriber
from tests.support.writer import eventually

TOKENS = Auth(tokens=(Token(token="t", scopes=("streams:*:enqueue",), name="t"),))


async def test_a_subscriber_that_does_not_read_is_cut_off_when_it_is_revoked(app: App, client: Client) -> None:
    for number in range(32):
        await client.enqueue(f"e-{number}", payload="x" * 500_000)
    stream = app.registry.find(STREAM)
    assert stream is not None
    async with deaf_subscriber(app, credit=32):
        await eventually(lambda: stream.in_flight == 32)
        async with asyncio.timeout(5):
            assert await app.replace_tokens(TOKENS) == 1
            await eventually(lambda: stream.in_flight == 0)
    assert_error(await client.post(body("e-new")), 401, "unauthorized")


@asynccontextmanager
async def served(
    connect: Connect, handle: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> AsyncIterator[Subscriber]:
    """A socket on an endpoint of the test's own."""
    config = ServerConfig(port=0)
    server = Server(config, Guard(config, Authenticator(Auth())))
    server.route("GET", "/socket", handle)
    await server.start()
    try:
        client = await connect(server.address)
        async with client.session.ws_connect("socket") as socket:
            yield Subscriber(socket)
    finally:
        await server.stop_listening()
        await server.close()


async def test_who_is_revoked_while_its_socket_is_made_is_refused_as_well(connect: Connect) -> None:
    sockets = OpenSockets()
    assert await sockets.revoke(lambda _principal: Forbidden("no more")) == 0

    async def handle(request: web.Request) -> web.WebSocketResponse:
        async with sockets.accept(request) as socket:
            assert [message async for message in socket] == []
        return socket

    async with served(connect, handle) as caller:
        assert (await caller.error())["message"] == "no more"
        assert await caller.close_code() == 4403


async def test_a_refusal_is_an_error_frame_and_its_close_code_however_long_its_message(connect: Connect) -> None:
    sockets = OpenSockets()
    message = "é" * CLOSE_REASON_BYTES_MAX

    async def handle(request: web.Request) -> web.WebSocketResponse:
        async with sockets.accept(request) as socket:
            await refuse(socket, InvalidRequest(message))
        return socket

    async with served(connect, handle) as caller:
        assert (await caller.error())["message"] == message
        closing = await caller.message()
        assert (closing.data, closing.extra) == (1007, message[: CLOSE_REASON_BYTES_MAX // 2])

"""The listening socket, and its orderly end."""

import asyncio
import contextlib
import socket
from functools import partial

from aiohttp import HttpVersion11, web

from broker.config import Server as ServerConfig
from broker.config.grammar import is_loopback
from broker.errors import ConfigError
from broker.front.connections import Connection, Connections
from broker.front.guard import Guard, Handler
from broker.front.quick_connection import QuickConnection
from broker.front.quick_lane import QuickLane
from broker.front.traffic import Traffic


def check_exposure(host: str, *, has_tokens: bool, key: str = "server.host") -> None:
    """Raise ConfigError for an address that others can reach when nobody has to show a token."""
    if not has_tokens and not is_loopback(host.strip("[]")):
        raise ConfigError(
            [
                f"{key}: {host} can be reached from other machines, but no tokens are configured, so anybody "
                "could read and write everything; add auth.tokens, or listen on 127.0.0.1"
            ]
        )


CLOSE_SECONDS = 1.0
"""How long a connection may take to send its last answer, when all requests are done."""


KEEP_ALIVE_SECONDS = 75.0
"""How long a connection may be idle between two requests, or before its first."""


async def _expected(request: web.Request) -> None:
    """Ask for the body of a client that waits to be asked; another expectation is passed over, as it may be."""
    if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # or aiohttp takes the answer itself for begun


class Server:
    """An aiohttp application on one address."""

    def __init__(self, config: ServerConfig, guard: Guard) -> None:
        self._config = config
        self._app = web.Application(
            middlewares=[self._counted, guard.middleware], client_max_size=config.max_body_bytes
        )
        self._runner = web.AppRunner(self._app, handle_signals=False, shutdown_timeout=CLOSE_SECONDS)
        self._connections = Connections(config)
        self.traffic = Traffic()
        """The requests that are under way, and those that were answered."""
        self.lane: QuickLane | None = None
        """Where plain requests go past aiohttp; None for nowhere. Only before `start`."""
        self._listening: asyncio.Server | None = None
        self.port = 0

    def route(self, method: str, path: str, handler: Handler) -> None:
        """Add an endpoint. Only before `start`."""
        self._app.router.add_route(method, path, handler, expect_handler=_expected)

    async def start(self) -> None:
        """Listen; raise ConfigError when the address cannot be had."""
        await self._runner.setup()
        assert self._runner.server is not None
        make = Connection if self.lane is None else partial(QuickConnection, self.lane)
        options = {"access_log": None, "keepalive_timeout": KEEP_ALIVE_SECONDS}
        self._connections.serve(self._runner.server, options, make)
        loop = asyncio.get_running_loop()
        try:
            self._listening = await loop.create_server(
                self._connections, self._config.host, self._config.port, backlog=1024
            )
        except socket.gaierror as error:
            await self._runner.cleanup()
            raise ConfigError([f"server.host: {self._config.host!r} is not an address: {error.strerror}"]) from None
        except OSError as error:
            await self._runner.cleanup()
            address = f"{self._config.host}:{self._config.port}"
            raise ConfigError(
                [f"server: cannot listen on {address}: {error.strerror}; is another broker there?"]
            ) from None
        self.port = self._listening.sockets[0].getsockname()[1]

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._connections.open

    @property
    def connections_refused(self) -> int:
        """How many connections were past their bound, since the start."""
        return self._connections.refused_total

    @property
    def is_listening(self) -> bool:
        """Whether new connections are taken."""
        return self._listening is not None

    @property
    def address(self) -> str:
        """Where it listens, as a URL."""
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"http://{host}:{self.port}"

    async def stop_listening(self) -> None:
        """Take no new connections; those that are open stay."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
            for _ in range(3):  # a connection of this moment must get as far as waiting, or aiohttp takes it for busy
                await asyncio.sleep(0)

    @web.middleware
    async def _counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.traffic.begin()
        try:
            answer = await handler(request)
            self.traffic.answered[answer.status] += 1
            return answer
        finally:
            self.traffic.end()

    async def close(self) -> None:
        """Let the requests under way finish, within the drain time, and close every connection.

        They are waited for here, because aiohttp reads nothing more of them once it shuts down.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.drain_ms / 1000):
                await self.traffic.ended()
        await self._runner.cleanup()
        self._connections.abort_refused()

"""A server that sources pull from: items after a cursor over HTTP, and as frames over a WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import WSCloseCode, web

from broker.app import App

PATIENCE_SECONDS = 20.0
STREAM = "feeds/weather"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Talk = Callable[[web.Request, web.WebSocketResponse], Awaitable[None]]


def item(number: int, **more: Any) -> dict[str, Any]:
    """An item whose facts follow from its number."""
    return {"id": f"w-{number}", "seq": number, "at": f"2026-02-16T23:10:{number % 60:02}Z", "what": "rain", **more}


class Upstream:
    """The server. It answers as the document of the tests says, unless a test sets another `answer` or `talk`."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.page = 2
        self.answer: Answer = self._page
        self.talk: Talk = self._feed
        self.requests: list[web.Request] = []
        self.sockets: set[web.WebSocketResponse] = set()
        self.changed = asyncio.Condition()
        self.url = ""

    def add(self, *items: Any) -> None:
        """Add items; bytes as they stand."""
        self.items += [each if isinstance(each, bytes) else json.dumps(each).encode() for each in items]

    @property
    def asked(self) -> list[str]:
        """The path and query of each request so far."""
        return [request.path_qs for request in self.requests]

    def etag(self) -> str:
        """One that changes with the items."""
        return f'"v{len(self.items)}"'

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        self.requests.append(request)
        if "upgrade" in request.headers.get("Connection", "").lower():
            socket = web.WebSocketResponse(autoping=False)
            await socket.prepare(request)
            self.sockets.add(socket)
            try:
                await self.talk(request, socket)
            finally:
                self.sockets.discard(socket)
            return socket
        return await self.answer(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        """`{"data": {"items": […]}, "next": …}`: at most a page of what lies behind the cursor."""
        if request.headers.get("If-None-Match") == self.etag():
            return web.Response(status=304)
        after = int(request.query.get("after") or 0)
        items = self.items[after : after + self.page]
        body = b'{"data":{"items":[%b]},"next":%d}' % (b",".join(items), after + len(items))
        return web.Response(body=body, content_type="application/json", headers={"ETag": self.etag()})

    async def _feed(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        """All items behind the cursor as frames, and then those that come."""
        position = int(request.query.get("after") or 0)
        while not socket.closed:
            while position < len(self.items):
                await socket.send_bytes(self.items[position])
                position += 1
            await self.next_change()

    async def next_change(self) -> None:
        """Wait until a test says that there is something new."""
        async with self.changed:
            await self.changed.wait()

    async def tell(self, *items: Any) -> None:
        """Add items, and wake who waits for them."""
        self.add(*items)
        async with self.changed:
            self.changed.notify_all()

    async def hang_up(self) -> None:
        """Close every socket, as a server that is restarted does."""
        for socket in list(self.sockets):
            await socket.close(code=WSCloseCode.GOING_AWAY)
        await self.tell()

    async def close(self) -> None:
        """Cut what is open."""
        for socket in list(self.sockets):
            with suppress(Exception):
                await socket.close()
        await self.tell()


@asynccontextmanager
async def serving(upstream: Upstream, port: int = 0) -> AsyncIterator[Upstream]:
    """The server on a port of loopback, until the end of the block."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", upstream.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    assert site._server is not None
    upstream.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield upstream
    finally:
        await upstream.close()
        await runner.cleanup()


def rest(upstream: Upstream, **more: Any) -> dict[str, Any]:
    """The configuration of a poller of this server."""
    return {
        "name": "weather",
        "stream": STREAM,
        "url": f"{upstream.url}/events?after={{cursor}}",
        "items": "/data/items",
        "nextCursor": "/next",
        "sequence": "/seq",
        "time": "/at",
        "type": "/what",
        "intervalMs": 100,
        "backoffMaxMs": 100,
        **more,
    }


def websocket(upstream: Upstream, **more: Any) -> dict[str, Any]:
    """The configuration of a WebSocket to this server."""
    return {
        "name": "weather",
        "stream": STREAM,
        "url": f"{upstream.url.replace('http', 'ws', 1)}/feed?after={{cursor}}",
        "cursor": "/seq",
        "sequence": "/seq",
        "time": "/at",
        "type": "/what",
        "backoffMaxMs": 100,
        **more,
    }


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop, the sockets and the writer go on until something holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other tasks and threads
            await asyncio.sleep(0.002)


async def checkpoints(app: App) -> dict[str, str]:
    """The cursors on disk."""

    def query(connection: Any) -> dict[str, str]:
        return dict(connection.execute("SELECT source_system, cursor FROM source_checkpoints").fetchall())

    return await app.journal.readers.run(query)

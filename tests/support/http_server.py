"""A real HTTP server of somebody else: it answers and fails as it is told, and remembers what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Endpoint:
    """Answers the requests in order; the last reply is given to all that come after."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = ""
        self.asked = asyncio.Event()
        self.ends = asyncio.Event()
        """Set at the end: whoever hangs ends then."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(orjson.loads(await request.read()))
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        self.asked.set()
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return await reply(request)


ENDPOINT = web.AppKey("endpoint", Endpoint)


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[Endpoint]:
    """A server on a free port of this machine."""
    endpoint = Endpoint(*replies)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", endpoint.handle)
    app[ENDPOINT] = endpoint
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    endpoint.url = f"http://127.0.0.1:{port}/v1"
    try:
        yield endpoint
    finally:
        endpoint.ends.set()
        await runner.cleanup()


def status(code: int, text: str = "", **headers: str) -> Reply:
    """An answer without an agent in it."""

    async def reply(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text=text, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return reply


def document(value: Any) -> Reply:
    """A JSON document."""

    async def reply(_request: web.Request) -> web.StreamResponse:
        return web.json_response(value)

    return reply


def hang() -> Reply:
    """No answer at all."""

    async def reply(request: web.Request) -> web.StreamResponse:
        await request.app[ENDPOINT].ends.wait()
        return web.Response()

    return reply


def stream(*chunks: bytes, cut: bool = False, hold: asyncio.Event | None = None) -> Reply:
    """Server-sent events as these bytes, in these chunks; held before the last one, or cut after it."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            if hold is not None and chunk is chunks[-1]:
                await hold.wait()
            await response.write(chunk)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        else:
            await response.write_eof()
        return response

    return reply


def delta(text: str | None, *, finish: str | None = None) -> bytes:
    """A piece of an answer, in the protocol of OpenAI."""
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}
    return b"data: " + orjson.dumps({"object": "chat.completion.chunk", "choices": [choice]}) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def answer(*pieces: str) -> Reply:
    """A whole answer in pieces."""
    return stream(*map(delta, pieces), delta(None, finish="stop"), DONE)

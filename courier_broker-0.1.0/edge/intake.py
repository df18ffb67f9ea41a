"""The intake over HTTP, for other processes on the device: an event is acknowledged when it is in the outbox.

It takes no commands: every process on the device can reach it, and so can a web page in a browser there, whose requests
are told by their `Origin`, their `Host` and their content type, and refused.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
from aiohttp import web

from edge.edge import Edge
from edge.errors import EdgeError, EventInvalid, Forbidden, OutboxUnavailable, RequestInvalid, SettingsInvalid
from edge.limits import INTAKE_BODY_BYTES_MAX, INTAKE_CONNECTIONS_MAX, INTAKE_EVENTS_MAX
from edge.store import DEFAULT_LANE, Receipt

_JSON_TYPES = ("application/json", "application/x-ndjson")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


def shown(receipt: Receipt) -> dict[str, Any]:
    """The acknowledgement of an event that is in the outbox."""
    answer: dict[str, Any] = {"event_id": receipt.event_id, "status": "queued"}
    if receipt.duplicate:
        answer["duplicate"] = True
    if receipt.payload_conflict:
        answer["payload_conflict"] = True
    return answer


async def put(edge: Edge, given: bytes, lane: str) -> dict[str, Any]:
    """Put one event; its acknowledgement, or the error."""
    try:
        return shown(await edge.put(given, lane=lane))
    except SettingsInvalid as error:  # the name of a lane
        return {"status": "rejected", "error": RequestInvalid(error.message).as_dict()}
    except EdgeError as error:
        return {"status": "error" if error.retryable else "rejected", "error": error.as_dict()}


class Intake:
    """Takes events for an edge."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._runner: web.AppRunner | None = None
        self._active = 0
        self.address = ""

    async def listen(self, host: str, port: int) -> None:
        """Serve HTTP; raise OSError when the port is taken."""
        app = web.Application(client_max_size=INTAKE_BODY_BYTES_MAX, middlewares=[_guard])
        app.router.add_post("/events", self._post_events)
        app.router.add_get("/status", self._get_status)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        address, bound_port = self._runner.addresses[0][:2]
        self.address = f"http://{f'[{address}]' if ':' in address else address}:{bound_port}"

    async def _post_events(self, request: web.Request) -> web.Response:
        if self._active >= INTAKE_CONNECTIONS_MAX:
            raise OutboxUnavailable(f"{INTAKE_CONNECTIONS_MAX} requests are open already; try again")
        self._active += 1
        try:
            return await self._take(request)
        finally:
            self._active -= 1

    async def _take(self, request: web.Request) -> web.Response:
        lane = request.query.get("lane", DEFAULT_LANE)
        body = await request.read()
        if request.content_type == "application/x-ndjson":
            answers = await self._put_all([line for line in body.splitlines() if line.strip()], lane)
            lines = b"".join(orjson.dumps(answer) + b"\n" for answer in answers)
            return web.Response(body=lines, content_type="application/x-ndjson")
        if body.lstrip(b" \t\r\n").startswith(b"["):
            return web.Response(
                body=orjson.dumps(await self._put_all(_split(body), lane)), content_type="application/json"
            )
        answer = await put(self._edge, body, lane)
        if "error" in answer:
            status = next((k.status for k in _kinds(EdgeError) if k.code == answer["error"]["code"]), 500)
            return _error(answer["error"], status)
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _put_all(self, events: Sequence[bytes], lane: str) -> list[dict[str, Any]]:
        if not 1 <= len(events) <= INTAKE_EVENTS_MAX:
            raise RequestInvalid(f"{len(events)} events at once; between 1 and {INTAKE_EVENTS_MAX} are taken")
        return await asyncio.gather(*(put(self._edge, event, lane) for event in events))

    async def _get_status(self, _request: web.Request) -> web.Response:
        status = await self._edge.status()
        return web.Response(body=orjson.dumps(status.as_dict()), content_type="application/json")

    async def close(self) -> None:
        """Take nothing more; what was taken is answered."""
        if self._runner is not None:
            await self._runner.cleanup()


def _kinds(kind: type[EdgeError]) -> list[type[EdgeError]]:
    return [kind] + [below for child in kind.__subclasses__() for below in _kinds(child)]


def _split(body: bytes) -> list[bytes]:
    """The events of an array, each with the bytes that it came with."""
    try:
        text = body.decode()
        count = len(orjson.loads(body))
        decoder, at, events = json.JSONDecoder(), text.index("[") + 1, []
        for _ in range(count):
            at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
            _, end = decoder.raw_decode(text, at)
            events.append(text[at:end].encode())
            at = end
    except (ValueError, RecursionError) as error:
        raise RequestInvalid(f"the body is not an array of events: {error}") from None
    return events


def _error(error: dict[str, Any], status: int) -> web.Response:
    headers = {"Retry-After": "1"} if error["retryable"] else {}
    return web.Response(
        status=status, body=orjson.dumps({"error": error}), content_type="application/json", headers=headers
    )


@web.middleware
async def _guard(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse what a web page could send, and turn errors into answers."""
    try:
        if "Origin" in request.headers or request.headers.get("Host", "").rpartition(":")[0] not in _LOOPBACK:
            raise Forbidden("the intake is for programs on this device: no Origin, and a loopback address as Host")
        if request.method == "POST" and request.content_type not in _JSON_TYPES:
            raise RequestInvalid(f"the content type is {request.content_type}; send {' or '.join(_JSON_TYPES)}")
        return await handler(request)
    except EdgeError as error:
        return _error(error.as_dict(), error.status)
    except web.HTTPRequestEntityTooLarge:
        return _error(EventInvalid(f"the body is longer than {INTAKE_BODY_BYTES_MAX} bytes").as_dict(), 413)

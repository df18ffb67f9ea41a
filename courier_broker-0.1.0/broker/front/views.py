"""`GET /v1/snapshot` and `WS /v1/live`: a view as it is, and as it changes (003 §9)."""

import asyncio
from collections.abc import Iterator

import orjson
from aiohttp import web

from broker.deliveries.framing import text_frame_head
from broker.errors import InvalidRequest, Saturated
from broker.front.guard import PRINCIPAL
from broker.front.line import Line
from broker.front.requests import JSON, Query
from broker.front.sockets import Objection, OpenSockets, refuse
from broker.limits import SNAPSHOTS_AT_ONCE_MAX, STALLED_READER_MS_MAX, WRITE_BYTES_MAX
from broker.views.catalogue import Views
from broker.views.live import Deltas
from broker.views.view import Held, View


class ViewEndpoints:
    """The endpoints, and the sockets that are open on them."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._sockets = OpenSockets()
        self._snapshots = 0
        """How many are being sent. Each may keep envelopes that the view has replaced meanwhile."""

    def _asked_for(self, request: web.Request) -> View:
        name = Query(request, "view").text("view")
        if not name:
            known = ", ".join(view.rule.name for view in self._views.all())
            raise InvalidRequest(f"view: it is missing; ask for {request.path}?view=NAME, where NAME is {known}")
        view = self._views.find(name)
        request[PRINCIPAL].check_view(name)
        return view

    async def snapshot(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/snapshot`: the whole view, at one moment."""
        view = self._asked_for(request)
        if self._snapshots >= SNAPSHOTS_AT_ONCE_MAX:
            raise Saturated(f"{self._snapshots} snapshots are being sent already; ask again later")
        self._snapshots += 1
        try:
            return await self._send_snapshot(request, view)
        finally:
            self._snapshots -= 1

    async def _send_snapshot(self, request: web.Request, view: View) -> web.StreamResponse:
        head = b'{"view":%b,"seq":%d,"snapshot":{' % (orjson.dumps(view.rule.name), view.seq)
        entries = [(orjson.dumps(key), held) for key, held in view.items()]
        total = len(head) + 2 + sum(len(key) + 1 + len(held.envelope) for key, held in entries)
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.content_length = total + max(0, len(entries) - 1)
        await response.prepare(request)
        for chunk in _chunks(head, entries):
            try:
                async with asyncio.timeout(STALLED_READER_MS_MAX / 1000):
                    await response.write(chunk)
            except TimeoutError:  # it reads nothing: what it asked for is not kept for it any longer
                if request.transport is not None:
                    request.transport.abort()
                break
        return response

    async def live(self, request: web.Request) -> web.WebSocketResponse:
        """`WS /v1/live`: the view as it is, then every change, until the reader goes away."""
        self._sockets.check()
        name = self._asked_for(request).rule.name
        async with self._sockets.accept(request) as socket:
            line = await Line.of(socket, request)
            deltas = self._views.follow(name)
            sender = asyncio.create_task(_send(line, deltas))
            try:
                async for _message in socket:
                    await refuse(socket, InvalidRequest("/v1/live takes no frames; it only sends"))
            finally:
                self._views.leave(name, deltas)
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)
                line.cut()
        return socket

    @property
    def open_sockets(self) -> int:
        """How many sockets are open."""
        return len(self._sockets)

    async def revoke(self, objection: Objection) -> int:
        """Close the sockets of callers that may not stay; how many those were."""
        return await self._sockets.revoke(objection)

    async def close(self) -> None:
        """Close every socket, saying that the broker goes away; let nobody in any more."""
        await self._sockets.close()


def _chunks(head: bytes, entries: list[tuple[bytes, Held]]) -> Iterator[bytes]:
    """The bytes of a snapshot, in pieces of one write each."""
    parts, size = [head], 0
    for position, (key, held) in enumerate(entries):
        parts += (b"," if position else b"", key, b":", held.envelope)
        size += len(held.envelope)
        if size >= WRITE_BYTES_MAX:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join((*parts, b"}}"))


async def _send(line: Line, deltas: Deltas) -> None:
    """Send frames at the speed of the reader, until it is gone."""
    try:
        while True:
            frame = await deltas.take()
            await line.write(text_frame_head(len(frame)) + frame)
    except ConnectionError:
        line.cut()

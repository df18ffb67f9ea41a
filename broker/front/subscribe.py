"""`WS /v1/subscribe?stream=NAME` (003 §7.2): credit, ack, nack and extend in; deliveries out."""

import asyncio
from collections.abc import Callable

from aiohttp import WSMsgType, web

from broker.contracts.names import stream_pattern_problem
from broker.deliveries.outbox import DeliveryQueue
from broker.errors import CourierError, InvalidRequest
from broker.front import control
from broker.front.guard import PRINCIPAL
from broker.front.line import Line
from broker.front.replies import error_frame
from broker.front.sockets import Objection, OpenSockets
from broker.limits import DELIVER_BATCH_MAX
from broker.streams.registry import Registry
from broker.streams.subscription import Subscription


class Subscribe:
    """The endpoint, and the sockets that are open on it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._sockets = OpenSockets()

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one subscriber until it goes away."""
        self._sockets.check()
        name = request.query.get("stream", "")
        if (problem := stream_pattern_problem(name)) is not None:
            raise InvalidRequest(f"stream: {problem}; connect to /v1/subscribe?stream=NAME")
        request[PRINCIPAL].check_stream(name, "subscribe")
        queue = DeliveryQueue(_batch(request))
        subscription = self._registry.subscribe(name, queue)
        stuck_bytes = 0
        try:
            async with self._sockets.accept(request) as socket:
                line = await Line.of(socket, request)
                sender = asyncio.create_task(_send(line, queue))
                try:
                    await self._receive(socket, subscription, queue)
                finally:
                    stuck_bytes = line.stuck_bytes
                    sender.cancel()
                    await asyncio.gather(sender, return_exceptions=True)
                    line.cut()
        finally:
            self._leave(subscription, queue, stuck_bytes)
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

    def _leave(self, subscription: Subscription, queue: DeliveryQueue, stuck_bytes: int) -> None:
        self._registry.unsubscribe(subscription, queue.unsent(stuck_bytes))

    async def _receive(self, socket: web.WebSocketResponse, subscription: Subscription, queue: DeliveryQueue) -> None:
        async for message in socket:
            try:
                if message.type is not WSMsgType.TEXT:
                    raise InvalidRequest("control frames are JSON text, not binary")
                self._obey(subscription, control.parse(message.data), queue)
            except CourierError as error:
                queue.answer(error_frame(error))
            await queue.answered()

    def _obey(self, subscription: Subscription, frame: control.Control, queue: DeliveryQueue) -> None:
        if frame.credit is not None:
            self._registry.grant(subscription, frame.credit)
            return
        settle = self._settle(subscription, frame)
        for key in frame.keys:
            try:
                settle(key)
            except CourierError as error:
                error.detail.setdefault("id" if isinstance(key, str) else "seq", key)
                queue.answer(error_frame(error))

    def _settle(self, subscription: Subscription, frame: control.Control) -> Callable[[str | int], None]:
        """What an ack, nack or extend does with each event that it names: the only calls into the registry."""
        registry, attempt = self._registry, frame.attempt
        if frame.ack is not None:
            return lambda key: registry.ack(subscription, key, attempt)
        if frame.nack is not None:
            delay_ms = frame.delay_ms or 0
            return lambda key: registry.nack(subscription, key, delay_ms, attempt)
        lease_ms = frame.lease_ms or 0
        return lambda key: registry.extend(subscription, key, lease_ms, attempt)


def _batch(request: web.Request) -> int | None:
    """How many envelopes one frame may carry; None when each has a frame of its own."""
    text = request.query.get("batch")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= DELIVER_BATCH_MAX):
        raise InvalidRequest(f"batch must be a number from 1 to {DELIVER_BATCH_MAX}, not {text[:20]!r}")
    return int(text)


async def _send(line: Line, queue: DeliveryQueue) -> None:
    """Send what is queued, one write at a time, until the reader is gone; then let its receiver end too."""
    try:
        while True:
            await line.write(await queue.take())
    except ConnectionError:
        line.cut()
    finally:
        queue.end()

"""`WS /v1/subscribe?stream=NAME` (003 §7.2): credit, ack, nack and extend in; deliveries out."""

import asyncio
import logging
from typing import Annotated

import msgspec
from aiohttp import WSMsgType, web

from broker.contracts.names import stream_name_problem
from broker.deliveries.outbox import DeliveryQueue
from broker.errors import CourierError, InvalidRequest
from broker.front.guard import PRINCIPAL
from broker.front.replies import error_frame
from broker.front.sockets import Objection, OpenSockets
from broker.limits import EVENT_ID_BYTES_MAX
from broker.streams.registry import Registry
from broker.streams.stream import Subscription

log = logging.getLogger(__name__)

EventId = Annotated[str, msgspec.Meta(max_length=EVENT_ID_BYTES_MAX)]


class _Control(msgspec.Struct, forbid_unknown_fields=True):
    credit: int | None = None
    ack: EventId | None = None
    nack: EventId | None = None
    extend: EventId | None = None
    delay_ms: int | None = msgspec.field(name="delayMs", default=None)
    lease_ms: int | None = msgspec.field(name="leaseMs", default=None)


_decode = msgspec.json.Decoder(_Control).decode


class Subscribe:
    """The endpoint, and the sockets that are open on it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._sockets = OpenSockets()

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one subscriber until it goes away."""
        self._sockets.check()
        name = request.query.get("stream", "")
        if (problem := stream_name_problem(name)) is not None:
            raise InvalidRequest(f"stream: {problem}; connect to /v1/subscribe?stream=NAME")
        request[PRINCIPAL].check_stream(name, "subscribe")
        queue = DeliveryQueue()
        subscription = self._registry.subscribe(name, queue)
        try:
            async with self._sockets.accept(request) as socket:
                sender = asyncio.create_task(self._send(socket, queue))
                try:
                    await self._receive(socket, subscription)
                finally:
                    sender.cancel()
                    await asyncio.gather(sender, return_exceptions=True)
        finally:
            self._registry.unsubscribe(subscription)
        return socket

    async def revoke(self, objection: Objection) -> int:
        """Close the sockets of callers that may not stay; how many those were."""
        return await self._sockets.revoke(objection)

    async def close(self) -> None:
        """Close every socket, saying that the broker goes away; let nobody in any more."""
        await self._sockets.close()

    async def _send(self, socket: web.WebSocketResponse, queue: DeliveryQueue) -> None:
        while not socket.closed:
            for entry, attempt in await queue.take():
                frame = b'{"deliver":%b,"attempt":%d,"seq":%d}' % (entry.envelope, attempt, entry.seq)
                await socket.send_frame(frame, WSMsgType.TEXT)

    async def _receive(self, socket: web.WebSocketResponse, subscription: Subscription) -> None:
        async for message in socket:
            try:
                if message.type is not WSMsgType.TEXT:
                    raise InvalidRequest("control frames are JSON text, not binary")
                self._control(subscription, message.data)
            except CourierError as error:
                await socket.send_frame(error_frame(error), WSMsgType.TEXT)

    def _control(self, subscription: Subscription, text: str) -> None:
        try:
            control = _decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidRequest(f"not a control frame: {error}") from None
        match control:
            case _Control(credit=int(credit), ack=None, nack=None, extend=None, delay_ms=None, lease_ms=None):
                self._registry.grant(subscription, credit)
            case _Control(credit=None, ack=str(event_id), nack=None, extend=None, delay_ms=None, lease_ms=None):
                self._registry.ack(subscription, event_id)
            case _Control(credit=None, ack=None, nack=str(event_id), extend=None, lease_ms=None):
                self._registry.nack(subscription, event_id, control.delay_ms or 0)
            case _Control(
                credit=None, ack=None, nack=None, extend=str(event_id), delay_ms=None, lease_ms=int(lease_ms)
            ):
                self._registry.extend(subscription, event_id, lease_ms)
            case _:
                raise InvalidRequest(
                    'a control frame is one of {"credit": n}, {"ack": id}, {"nack": id, "delayMs": n} '
                    'and {"extend": id, "leaseMs": n}'
                )

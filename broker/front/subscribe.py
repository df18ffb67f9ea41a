"""`WS /v1/subscribe?stream=NAME` (003 §7.2): credit, ack, nack and extend in; deliveries out.

Frames that are ready together are handed to the transport in one turn of the loop, without waiting in between,
and the loop writes them to the socket in one go. With `?batch=N`, up to N envelopes share a frame.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import msgspec
from aiohttp import WSMsgType, web

from broker.contracts.names import stream_pattern_problem
from broker.deliveries.outbox import DeliveryQueue
from broker.errors import CourierError, InvalidRequest
from broker.front.guard import PRINCIPAL
from broker.front.replies import error_frame
from broker.front.sockets import Objection, OpenSockets
from broker.limits import DELIVER_BATCH_BYTES, DELIVER_BATCH_MAX, EVENT_ID_BYTES_MAX
from broker.streams.entry import Entry
from broker.streams.registry import Registry
from broker.streams.subscription import Subscription

Key = Annotated[str, msgspec.Meta(max_length=EVENT_ID_BYTES_MAX)] | int
"""What names a delivery: the id of its event, or its sequence."""


class _Control(msgspec.Struct, forbid_unknown_fields=True):
    credit: int | None = None
    ack: Key | list[Key] | None = None
    nack: Key | list[Key] | None = None
    extend: Key | list[Key] | None = None
    attempt: int | None = None
    delay_ms: int | None = msgspec.field(name="delayMs", default=None)
    lease_ms: int | None = msgspec.field(name="leaseMs", default=None)


_decode = msgspec.json.Decoder(_Control).decode
_FRAMES = (
    'a control frame is one of {"credit": n}, {"ack": id}, {"nack": id, "delayMs": n} and {"extend": id, "leaseMs": n},'
    ' where id may be a seq or an array of both, and a single one may have its "attempt": n'
)


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
        batch = _batch_size(request.query.get("batch"))
        request[PRINCIPAL].check_stream(name, "subscribe")
        queue = DeliveryQueue()
        subscription = self._registry.subscribe(name, queue)
        try:
            async with self._sockets.accept(request) as socket:
                sender = asyncio.create_task(_send(socket, queue, batch))
                try:
                    await self._receive(socket, subscription)
                finally:
                    sender.cancel()
                    await asyncio.gather(sender, return_exceptions=True)
        finally:
            self._registry.unsubscribe(subscription, queue.unsent())
        return socket

    async def revoke(self, objection: Objection) -> int:
        """Close the sockets of callers that may not stay; how many those were."""
        return await self._sockets.revoke(objection)

    async def close(self) -> None:
        """Close every socket, saying that the broker goes away; let nobody in any more."""
        await self._sockets.close()

    async def _receive(self, socket: web.WebSocketResponse, subscription: Subscription) -> None:
        async for message in socket:
            try:
                if message.type is not WSMsgType.TEXT:
                    raise InvalidRequest("control frames are JSON text, not binary")
                errors = self._obey(subscription, message.data)
            except CourierError as refused:
                errors = [refused]
            for error in errors:
                await socket.send_frame(error_frame(error), WSMsgType.TEXT)

    def _obey(self, subscription: Subscription, text: str) -> list[CourierError]:
        """Do what a control frame says; what could not be done, one error for each element."""
        try:
            control = _decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidRequest(f"not a control frame: {error}") from None
        match control:
            case _Control(credit=int(credit), ack=None, nack=None, extend=None, delay_ms=None, lease_ms=None):
                if control.attempt is not None:
                    raise InvalidRequest(_FRAMES)
                self._registry.grant(subscription, credit)
                return []
            case _Control(credit=None, ack=str() | int() | list() as keys, nack=None, extend=None, delay_ms=None):
                act: Callable[[Key], None] = partial(self._registry.ack, subscription, attempt=control.attempt)
                fits = control.lease_ms is None
            case _Control(credit=None, ack=None, nack=str() | int() | list() as keys, extend=None, lease_ms=None):
                delay_ms = control.delay_ms or 0
                act = partial(self._registry.nack, subscription, delay_ms=delay_ms, attempt=control.attempt)
                fits = True
            case _Control(credit=None, ack=None, nack=None, extend=str() | int() | list() as keys, lease_ms=int(lease)):
                act = partial(self._registry.extend, subscription, lease_ms=lease, attempt=control.attempt)
                fits = control.delay_ms is None
            case _:
                raise InvalidRequest(_FRAMES)
        if not fits or (control.attempt is not None and isinstance(keys, list)):
            raise InvalidRequest(_FRAMES)
        return _do_for_each(act, keys if isinstance(keys, list) else [keys])


def _do_for_each(act: Callable[[Key], None], keys: Iterable[Key]) -> list[CourierError]:
    errors: list[CourierError] = []
    for key in keys:
        try:
            act(key)
        except CourierError as error:
            errors.append(error)
    return errors


def _batch_size(given: str | None) -> int:
    """How many envelopes may share a frame; 0 for the plain frames of one."""
    if given is None:
        return 0
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= DELIVER_BATCH_MAX):
        raise InvalidRequest(f"batch must be a whole number from 1 to {DELIVER_BATCH_MAX}, not {given[:20]!r}")
    return int(given)


async def _send(socket: web.WebSocketResponse, queue: DeliveryQueue, batch: int) -> None:
    while not socket.closed:
        await queue.wait()
        while taken := queue.take(max(1, batch), DELIVER_BATCH_BYTES):
            await socket.send_frame(_frame(taken, batched=batch > 0), WSMsgType.TEXT)


def _frame(deliveries: list[tuple[Entry, int]], *, batched: bool) -> bytes:
    if batched:
        each = [b'{"envelope":%b,"attempt":%d,"seq":%d}' % (e.envelope, attempt, e.seq) for e, attempt in deliveries]
        return b'{"deliver":[%b]}' % b",".join(each)
    entry, attempt = deliveries[0]
    return b'{"deliver":%b,"attempt":%d,"seq":%d}' % (entry.envelope, attempt, entry.seq)

"""`WS /v1/subscribe?stream=NAME` (003 §7.2): credit, ack, nack and extend in; deliveries out.

With `group=NAME`, the deliveries come from the group's own copy of the stream.
"""

from aiohttp import WSMsgType, web

from _fast import ack_keys
from broker.contracts.json_bytes import is_utf8
from broker.contracts.names import stream_pattern_problem
from broker.deliveries.outbox import DeliveryQueue
from broker.errors import CourierError, InvalidRequest
from broker.front import control
from broker.front.frames import TextSocket
from broker.front.guard import PRINCIPAL
from broker.front.line import Line
from broker.front.replies import error_frame
from broker.front.requests import Query
from broker.front.sender import Sender
from broker.front.sockets import Objection, OpenSockets, check_handshake
from broker.limits import DELIVER_BATCH_MAX, KEYS_PER_FRAME_MAX
from broker.streams.groups import group_name_problem
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
        query = Query(request, "stream", "batch", "group", "from")
        name = query.text("stream") or ""
        if (problem := stream_pattern_problem(name)) is not None:
            raise InvalidRequest(f"stream: {problem}; connect to /v1/subscribe?stream=NAME")
        request[PRINCIPAL].check_stream(name, "subscribe")
        queue = DeliveryQueue(_batch(query))
        group, from_start = _group(query)
        check_handshake(request)
        if group is not None:
            await self._registry.join_group(name, group, from_start=from_start)
            self._sockets.check()
        subscription = self._registry.subscribe(name, queue, group)
        stuck_bytes = 0
        try:
            async with self._sockets.accept(request) as socket:
                line = await Line.of(socket, request)
                sender = Sender(line, queue)
                try:
                    await self._receive(socket, subscription, queue)
                finally:
                    stuck_bytes = line.stuck_bytes
                    await sender.end()
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

    async def _receive(self, socket: TextSocket, subscription: Subscription, queue: DeliveryQueue) -> None:
        def take(texts: list[bytes], first: int) -> int:
            while first < len(texts) and not queue.has_answers:
                keys, end = ack_keys(texts, first, KEYS_PER_FRAME_MAX)
                if keys:
                    _answer_refused(self._registry.ack_many(subscription, keys), queue)
                elif not is_utf8(texts[first]):
                    socket.give_back(texts[first:])
                    return len(texts)
                else:
                    self._take_one(texts[first], subscription, queue)
                    end = first + 1
                first = end
            return first

        socket.take_texts(take, queue.answered)
        try:
            async for message in socket:  # what is not written plainly
                await socket.texts_taken()
                if message.type is WSMsgType.TEXT:
                    self._take_one(message.data.encode(), subscription, queue)
                else:
                    queue.answer(error_frame(InvalidRequest("control frames are JSON text, not binary")))
                await queue.answered()
            await socket.texts_taken()
        finally:
            socket.end_texts()

    def _take_one(self, text: bytes, subscription: Subscription, queue: DeliveryQueue) -> None:
        try:
            self._obey(subscription, control.parse(text), queue)
        except CourierError as error:
            queue.answer(error_frame(error))

    def _obey(self, subscription: Subscription, frame: control.Control, queue: DeliveryQueue) -> None:
        if frame.credit is not None:
            self._registry.grant(subscription, frame.credit)
            return
        _answer_refused(self._settle(subscription, frame), queue)

    def _settle(self, subscription: Subscription, frame: control.Control) -> list[tuple[str | int, CourierError]]:
        """Ack, nack or extend the events that are named; those that this cannot be done for, with the reason."""
        if frame.ack is not None:
            return self._registry.ack_many(subscription, frame.keys, frame.attempt)
        refused: list[tuple[str | int, CourierError]] = []
        for key in frame.keys:
            try:
                if frame.nack is not None:
                    self._registry.nack(subscription, key, frame.delay_ms or 0, frame.attempt)
                else:
                    self._registry.extend(subscription, key, frame.lease_ms or 0, frame.attempt)
            except CourierError as error:
                refused.append((key, error))
        return refused


def _answer_refused(refused: list[tuple[str | int, CourierError]], queue: DeliveryQueue) -> None:
    for key, error in refused:
        error.detail.setdefault("id" if isinstance(key, str) else "seq", key)
        queue.answer(error_frame(error))


def _group(query: Query) -> tuple[str | None, bool]:
    """The consumer group that a subscriber belongs to, and whether a new one begins at the start."""
    group, start = query.text("group"), query.text("from")
    if group is None and start is not None:
        raise InvalidRequest("from goes with group: it says where a new group begins")
    if group is not None and (problem := group_name_problem(group)) is not None:
        raise InvalidRequest(f"group: {problem}")
    if start not in (None, "start", "now"):
        raise InvalidRequest(f"from must be start or now, not {start[:20]!r}")
    return group, start != "now"


def _batch(query: Query) -> int | None:
    """How many envelopes one frame may carry; None when each has a frame of its own."""
    return None if query.text("batch") is None else query.integer("batch", 1, 1, DELIVER_BATCH_MAX)

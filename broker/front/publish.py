"""`WS /v1/publish`: a producer's socket. Frames in, pipelined; acknowledgements out, after the commit, in order.

A frame is `{"to", "envelope"}` or an array of them; an array is committed together. When the ingest queue
is full, or more than the window is unanswered, the socket is not read any more: TCP slows the producer
down. The answers of one group commit leave in one write.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.deliveries.framing import text_frame_head
from broker.errors import CourierError, InvalidRequest
from broker.front.guard import PRINCIPAL
from broker.front.line import Line
from broker.front.replies import error_frame
from broker.front.sockets import GOODBYE_SECONDS, Objection, OpenSockets
from broker.limits import PUBLISH_WINDOW, WRITE_BYTES_MAX


class Answers:
    """The answers that wait for one producer, and how many events are still unanswered."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._unanswered = 0
        self._gone = False
        self._ready = asyncio.Event()
        self._progress = asyncio.Event()

    def expect(self, events: int) -> None:
        """So many events are on their way to the journal."""
        self._unanswered += events

    def put(self, frame: bytes, answered: int = 0) -> None:
        """Queue a frame, which answers so many events."""
        self._frames.append(frame)
        self._unanswered -= answered
        self._ready.set()
        self._progress.set()

    async def window(self) -> None:
        """Wait until less than the window is unanswered, or answered and not sent; or the producer is gone."""
        await self._until(lambda: self._unanswered + len(self._frames) < PUBLISH_WINDOW)

    async def settled(self) -> None:
        """Wait until everything is answered and sent; a producer that does not read is not waited for long."""
        await self._until(lambda: not self._unanswered)
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._until(lambda: not self._frames)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._gone:
            self._progress.clear()
            await self._progress.wait()

    async def send(self, line: Line) -> None:
        """Send what is queued, all of it in one write, for as long as the producer is there."""
        try:
            while True:
                await self._ready.wait()
                self._ready.clear()
                while self._frames:
                    await self._send_some(line)
                self._progress.set()
        except ConnectionError:
            line.cut()
        finally:
            self._gone = True
            self._progress.set()

    async def _send_some(self, line: Line) -> None:
        """Send as much as one write may be. What is being sent still counts against the window."""
        parts: list[bytes] = []
        size = taken = 0
        while taken < len(self._frames) and size < WRITE_BYTES_MAX:
            frame = self._frames[taken]
            parts += (text_frame_head(len(frame)), frame)
            size += len(frame)
            taken += 1
        await line.write(b"".join(parts))
        for _ in range(taken):
            self._frames.popleft()


class Publish:
    """The endpoint, and the sockets that are open on it."""

    def __init__(self, gate: Gate, room: Callable[[int], Awaitable[None]]) -> None:
        self._gate = gate
        self._room = room
        self._sockets = OpenSockets()
        self._answers: set[Answers] = set()

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one producer until it goes away."""
        self._sockets.check()
        answers = Answers()
        async with self._sockets.accept(request) as socket:
            self._answers.add(answers)
            line = await Line.of(socket, request)
            sender = asyncio.create_task(answers.send(line))
            try:
                answers.put(orjson.dumps({"window": PUBLISH_WINDOW}))
                await self._receive(socket, request[PRINCIPAL], answers)
            finally:
                self._answers.discard(answers)
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
        """Answer what was received, then close every socket."""
        await asyncio.gather(*(answers.settled() for answers in tuple(self._answers)))
        await self._sockets.close()

    async def _receive(self, socket: web.WebSocketResponse, principal: Principal, answers: Answers) -> None:
        async for message in socket:
            await answers.window()  # for errors too: who does not read them is not read either
            try:
                if message.type is not WSMsgType.TEXT:
                    raise InvalidRequest("frames are JSON text, not binary")
                requests = courier.split_frame(message.data.encode())
            except CourierError as error:
                answers.put(error_frame(error))
                continue
            events = self._admit(principal, requests, answers)
            if events:
                await self._submit(events, answers)

    def _admit(self, principal: Principal, requests: Sequence[bytes], answers: Answers) -> list[InboundEvent]:
        """The events of one frame that may pass; each of the others gets its error."""
        events = []
        for request in requests:
            try:
                events.append(self._gate.admit(principal, request))
            except CourierError as error:
                if (event_id := courier.id_of(request)) is not None:
                    error.detail.setdefault("id", event_id)
                answers.put(error_frame(error))
        return events

    async def _submit(self, events: list[InboundEvent], answers: Answers) -> None:
        def done(outcome: Any) -> None:
            for position, event in enumerate(events):
                answers.put(_answer(event, position, outcome), answered=1)

        answers.expect(len(events))
        try:
            await self._room(len(events))
            self._gate.submit(events, done)
        except CourierError as error:
            done(error)


def _answer(event: InboundEvent, position: int, outcome: Any) -> bytes:
    if isinstance(outcome, CourierError):
        return error_frame(outcome, id=event.source_event_id)
    seq = outcome.seqs[position]
    if seq == 0:
        return error_frame(outcome.refusal(position), id=event.source_event_id)
    reply = courier.reply(event.source_event_id, seq, outcome.duplicates.get(position))
    return orjson.dumps({"ack": reply.pop("id"), **reply})

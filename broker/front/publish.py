"""`WS /v1/publish`: a producer's socket. Frames in, pipelined; acknowledgements out, after the commit, in order.

A frame is `{"to", "envelope"}` or an array of them; an array is committed together. When the ingest queue
is full, or more than the window is unanswered, the socket is not read any more: TCP slows the producer
down. The answers of one group commit leave in one write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from aiohttp import WSMessage, WSMsgType

from _fast import ack_frames
from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import is_utf8
from broker.deliveries.framing import Framed
from broker.errors import CourierError, InvalidRequest
from broker.front.answers import Answers
from broker.front.frames import TextSocket
from broker.front.gathering import Gathering
from broker.front.producers import Producers
from broker.front.replies import error_frame
from broker.journal.submission import Receipts
from broker.limits import FRAMES_TOGETHER_MAX


class Publish(Producers):
    """The endpoint, and the sockets that are open on it."""

    def __init__(
        self,
        gate: Gate,
        has_room: Callable[[int], bool],
        room: Callable[[int], Awaitable[None]],
        queue_max: int,
    ) -> None:
        super().__init__()
        self._gate = gate
        self._has_room = has_room
        self._room = room
        self._queue_max = queue_max

    async def _receive(self, socket: TextSocket, principal: Principal, answers: Answers) -> None:
        put = partial(_put_answers, answers)
        gathering = Gathering(self._gate.submit, self._has_room, self._room, put, self._queue_max)
        producer = _Producer(self._gate, principal, answers, gathering, socket)
        socket.take_texts(producer.take, producer.ready)
        try:
            async for message in socket:  # what is not written plainly
                await socket.texts_taken()
                await producer.take_message(message)
            await socket.texts_taken()
            await gathering.end()
        finally:
            socket.end_texts()
            await gathering.close()


class _Producer:
    """Takes what one producer sends."""

    def __init__(
        self, gate: Gate, principal: Principal, answers: Answers, gathering: Gathering, socket: TextSocket
    ) -> None:
        self._gate = gate
        self._principal = principal
        self._answers = answers
        self._gathering = gathering
        self._socket = socket
        self._loop = asyncio.get_running_loop()

    def take(self, texts: list[bytes], first: int) -> int:
        """Take texts that came together, up to where there is room for more; where that is."""
        while first < len(texts) and (room := self._room()):
            end = min(len(texts), first + min(room, FRAMES_TOGETHER_MAX))
            first = self._take_together(texts[first:end], first)
            while first < end and self._room():
                if not self._take_one(texts[first]):
                    self._socket.give_back(texts[first:])
                    first = end = len(texts)
                else:
                    first += 1
        self._gathering.hand_over()
        return first

    async def take_message(self, message: WSMessage) -> None:
        """Take what comes as a message of aiohttp's; those of one turn of the loop go together."""
        while not self._room():
            await self.ready()
        if message.type is WSMsgType.TEXT:
            self._take_one(message.data.encode())
            self._loop.call_soon(self._gathering.hand_over)
        else:
            self._answers.put(error_frame(InvalidRequest("frames are JSON text, not binary")))

    async def ready(self) -> None:
        """Wait until there is room for more, or nobody reads the answers any more."""
        await self._answers.window()
        await self._gathering.taken()

    def _room(self) -> int:
        """How many events more may be taken. Errors count as answers: who does not read them is not read either."""
        if self._gathering.is_full:
            self._gathering.hand_over()
        return 0 if self._gathering.is_full else self._answers.room

    def _take_together(self, texts: list[bytes], first: int) -> int:
        """Take those from the first one on that go together; where they end. `first` is its place."""
        events, end, kind = self._gate.admit_frames(self._principal, texts)
        if not events or (len(events) > self._gathering.chunk_max and end > 1):
            return first
        self._pass_on(events, sum(map(len, texts[:end])), kind)
        return first + end

    def _take_one(self, text: bytes) -> bool:
        """Take one text; False, with nothing done, if it is none."""
        events = self._gate.admit_frame(self._principal, text)
        if events is None:
            if not is_utf8(text):
                return False
            events = self._admit(text)
        if events:
            self._pass_on(events, len(text), self._gate.kind_of(events))
        return True

    def _pass_on(self, events: list[InboundEvent], size: int, kind: bool | None) -> None:
        self._answers.expect(len(events))
        self._gathering.add(events, size, kind)

    def _admit(self, frame: bytes) -> list[InboundEvent]:
        """The events of one frame that may pass; each of the others gets its error."""
        events: list[InboundEvent] = []
        try:
            requests = courier.split_frame(frame)
        except CourierError as error:
            self._answers.put(error_frame(error))
            return events
        for request in requests:
            try:
                events.append(self._gate.admit(self._principal, request))
            except CourierError as error:
                if (event_id := courier.id_of(request)) is not None:
                    error.detail.setdefault("id", event_id)
                self._answers.put(error_frame(error))
        return events


def _put_answers(answers: Answers, events: list[InboundEvent], outcome: Any) -> None:
    """Answer the events of a submission in their order, all in one piece if that can be."""
    if isinstance(outcome, Receipts):
        frames = ack_frames(events, outcome.seqs, outcome.duplicates)
        if frames is not None:
            answers.put(Framed(frames), answered=len(events))
            return
    for position, event in enumerate(events):
        answers.put(_answer(event, position, outcome), answered=1)


def _answer(event: InboundEvent, position: int, outcome: Any) -> bytes:
    if isinstance(outcome, CourierError):
        return error_frame(outcome, id=event.source_event_id)
    seq = outcome.seqs[position]
    if seq == 0:
        return error_frame(outcome.refusal(position), id=event.source_event_id)
    reply = courier.reply(event.source_event_id, seq, outcome.duplicates.get(position))
    return orjson.dumps({"ack": reply.pop("id"), **reply})

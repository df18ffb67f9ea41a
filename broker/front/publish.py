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
from aiohttp import WSMessage, WSMsgType, web

from _fast import ack_frames
from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.deliveries.framing import Framed
from broker.errors import CourierError, InvalidRequest
from broker.front.answers import Answers
from broker.front.gathering import Gathering
from broker.front.producers import Producers
from broker.front.replies import error_frame
from broker.journal.submission import Receipts


class Publish(Producers):
    """The endpoint, and the sockets that are open on it."""

    def __init__(self, gate: Gate, room: Callable[[int], Awaitable[None]], queue_max: int) -> None:
        super().__init__()
        self._gate = gate
        self._room = room
        self._queue_max = queue_max

    async def _receive(self, socket: web.WebSocketResponse, principal: Principal, answers: Answers) -> None:
        gathering = Gathering(self._gate.submit, self._room, partial(_put_answers, answers), self._queue_max)
        submitting = asyncio.create_task(gathering.run())
        try:
            async for message in socket:
                if not answers.is_open:
                    await answers.window()  # for errors too: who does not read them is not read either
                frame = _text_of(message, answers)
                if frame is None:
                    continue
                events = self._gate.admit_frame(principal, frame)
                if events is None:
                    events = self._admit(principal, frame, answers)
                if events:
                    answers.expect(len(events))
                    gathering.add(events, len(frame), self._gate.kind_of(events))
                    if gathering.is_full:
                        await gathering.taken()
            await gathering.end()
        finally:
            submitting.cancel()
            await asyncio.gather(submitting, return_exceptions=True)

    def _admit(self, principal: Principal, frame: bytes, answers: Answers) -> list[InboundEvent]:
        """The events of one frame that may pass; each of the others gets its error."""
        events: list[InboundEvent] = []
        try:
            requests = courier.split_frame(frame)
        except CourierError as error:
            answers.put(error_frame(error))
            return events
        for request in requests:
            try:
                events.append(self._gate.admit(principal, request))
            except CourierError as error:
                if (event_id := courier.id_of(request)) is not None:
                    error.detail.setdefault("id", event_id)
                answers.put(error_frame(error))
        return events


def _text_of(message: WSMessage, answers: Answers) -> bytes | None:
    """What a frame says; None if it is no text, which is answered."""
    if message.type is WSMsgType.TEXT:
        text: bytes = message.data.encode()
        return text
    answers.put(error_frame(InvalidRequest("frames are JSON text, not binary")))
    return None


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

"""`WS /v1/publish`: a producer's socket. Frames in, pipelined; acknowledgements out, after the commit, in order.

A frame is `{"to", "envelope"}` or an array of them; an array is committed together. When the ingest queue
is full, or more than the window is unanswered, the socket is not read any more: TCP slows the producer
down. The answers of one group commit leave in one write.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, InvalidRequest
from broker.front.answers import Answers
from broker.front.producers import Producers
from broker.front.replies import error_frame


class Publish(Producers):
    """The endpoint, and the sockets that are open on it."""

    def __init__(self, gate: Gate, room: Callable[[int], Awaitable[None]]) -> None:
        super().__init__()
        self._gate = gate
        self._room = room

    async def _receive(self, socket: web.WebSocketResponse, principal: Principal, answers: Answers) -> None:
        async for message in socket:
            try:
                if message.type is not WSMsgType.TEXT:
                    raise InvalidRequest("frames are JSON text, not binary")
                requests = courier.split_frame(message.data.encode())
            except CourierError as error:
                answers.put(error_frame(error))
                continue
            events = self._admit(principal, requests, answers)
            if events:
                await answers.window()
                await self._submit(events, answers)

    def _admit(self, principal: Principal, requests: Sequence[bytes], answers: Answers) -> list[InboundEvent]:
        """The events of one frame that may pass; each of the others gets its error."""
        events = []
        for request in requests:
            try:
                events.append(self._gate.admit(principal, request))
            except CourierError as error:
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
        return orjson.dumps({"error": {**outcome.as_dict(), "id": event.source_event_id}})
    seq = outcome.seqs[position]
    if seq == 0:
        return orjson.dumps({"error": {**outcome.refusal(position).as_dict(), "id": event.source_event_id}})
    reply = courier.reply(event.source_event_id, seq, outcome.duplicates.get(position))
    return orjson.dumps({"ack": reply.pop("id"), **reply})

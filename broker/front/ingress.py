"""`WS /v1/ingress` and `POST /v1/events`: the events of devices (000), acknowledged after the commit.

A frame, or a body, is an envelope or an array of them; an array is committed together. Every envelope gets one
answer, in the order in which they came. One that is refused for good leaves a row in `rejections`, which is written
in the same group commit. `grpc_ingress.py` is a third transport over the same intake.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from broker.admission.auth import Principal
from broker.admission.commits import committed
from broker.admission.gate import Gate
from broker.clock import Clock
from broker.contracts import skyra
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, InvalidRequest, StorageUnavailable
from broker.front.answers import Answers
from broker.front.frames import TextSocket
from broker.front.guard import PRINCIPAL
from broker.front.producers import Producers
from broker.front.replies import REFUSALS, error_response, json_response
from broker.front.requests import JSON, check_content_type, check_not_packed
from broker.journal.rejections import Rejection, Rejections
from broker.journal.submission import Job


class Refused:
    """An envelope that was not let in, and why."""

    __slots__ = ("error", "event_id")

    def __init__(self, event_id: str | None, error: CourierError) -> None:
        self.event_id = event_id
        self.error = error


class Taken:
    """The envelopes of one frame or body: those that go to the journal, and what is known of the others."""

    __slots__ = ("_entries", "events", "is_array", "job")

    def __init__(self, entries: Sequence[InboundEvent | Refused], job: Job | None, is_array: bool) -> None:
        self._entries = entries
        self.events = [entry for entry in entries if isinstance(entry, InboundEvent)]
        self.job = job
        self.is_array = is_array

    def __len__(self) -> int:
        return len(self._entries)

    def answers(self, outcome: Any) -> list[dict[str, Any] | Refused]:
        """An acknowledgement or a refusal for each envelope, in order, once it is known what became of the events."""
        found: list[dict[str, Any] | Refused] = []
        position = 0
        for entry in self._entries:
            if isinstance(entry, Refused):
                found.append(entry)
                continue
            found.append(_answer(entry, position, outcome))
            position += 1
        return found


class SkyraIntake:
    """Reads envelopes and lets them through the gate, for every transport."""

    def __init__(
        self, gate: Gate, rejections: Rejections, clock: Clock, room: Callable[[int], Awaitable[None]]
    ) -> None:
        self._gate = gate
        self._rejections = rejections
        self._clock = clock
        self._room = room

    def take(self, principal: Principal, body: bytes) -> Taken:
        """What the body of a request, or a frame, holds."""
        try:
            envelopes, is_array = skyra.split(body)
        except CourierError as error:
            return self.refuse(principal, body, error)
        return self._take(principal, envelopes, is_array)

    def take_apart(self, principal: Principal, envelopes: Sequence[bytes]) -> Taken:
        """What a frame holds whose envelopes came each by itself; they are committed together."""
        try:
            skyra.check_count(len(envelopes))
        except CourierError as error:
            return self.refuse(principal, b"".join(envelopes[:1]), error)
        return self._take(principal, envelopes, is_array=True, check=skyra.check_bytes)

    def _take(
        self,
        principal: Principal,
        envelopes: Sequence[bytes],
        is_array: bool,
        check: Callable[[bytes], None] | None = None,
    ) -> Taken:
        refused: list[Rejection] = []
        entries = [self._admit(principal, raw, refused, check) for raw in envelopes]
        return Taken(entries, self._rejections.keep(refused) if refused else None, is_array)

    def refuse(self, principal: Principal, body: bytes, error: CourierError) -> Taken:
        """A body that is refused as a whole."""
        kept = self._rejections.keep([self._rejection(principal, None, body, error)])
        return Taken([Refused(None, error)], kept, is_array=False)

    def _admit(
        self, principal: Principal, raw: bytes, refused: list[Rejection], check: Callable[[bytes], None] | None
    ) -> InboundEvent | Refused:
        try:
            if check is not None:
                check(raw)
            event = skyra.parse(raw, principal.name, self._clock.wall_us())
            self._gate.pass_event(principal, event, device=skyra.device_of(event), durable=True)
        except CourierError as error:
            event_id = skyra.event_id_in(raw)
            if not error.retryable:
                refused.append(self._rejection(principal, event_id, raw, error))
            return Refused(event_id, error)
        return event

    def _rejection(self, principal: Principal, event_id: str | None, raw: bytes, error: CourierError) -> Rejection:
        return Rejection(
            skyra.CONTRACT,
            principal.name,
            self._clock.wall_us(),
            error.code,
            error.message,
            raw,
            source_event_id=event_id,
            event_id=event_id,
        )

    async def outcome(self, taken: Taken) -> Any:
        """What became of the events of one request, once that is decided."""
        if not taken.events and taken.job is None:
            return None
        try:
            return await committed(self._gate, taken.events, taken.job)
        except CourierError as error:
            return error

    async def submit(self, taken: Taken, answers: Answers, encode: Callable[[dict[str, Any]], bytes]) -> None:
        """Hand over what came on a stream, as soon as the ingest queue has room; its answers follow the commit.

        A frame without events goes through the writer too, so that its answer keeps its place.
        """

        def done(outcome: Any) -> None:
            for answer in taken.answers(outcome):
                answers.put(encode(shown(answer)), answered=1)

        answers.expect(len(taken))
        try:
            await self._room(len(taken.events))
            self._gate.submit(taken.events, done, taken.job)
        except CourierError as error:
            done(error)


class DeviceEvents:
    """`POST /v1/events`."""

    def __init__(self, intake: SkyraIntake) -> None:
        self._intake = intake

    async def handle(self, request: web.Request) -> web.Response:
        """One envelope is answered with its acknowledgement or its refusal, an array with one of them each."""
        check_content_type(request, JSON)
        check_not_packed(request)
        taken = self._intake.take(request[PRINCIPAL], await request.read())
        answers = taken.answers(await self._intake.outcome(taken))
        if taken.is_array:
            body = orjson.dumps([shown(answer) for answer in answers])
            return web.Response(body=body, content_type=JSON)
        (answer,) = answers
        if isinstance(answer, Refused):
            beside = skyra.nack(answer.event_id, answer.error)
            return error_response(answer.error, {key: beside[key] for key in beside if key != "error"})
        return json_response(answer)


class Ingress(Producers):
    """`WS /v1/ingress`, and the sockets that are open on it."""

    def __init__(self, intake: SkyraIntake) -> None:
        super().__init__()
        self._intake = intake

    async def _receive(self, socket: TextSocket, principal: Principal, answers: Answers) -> None:
        async for message in socket:
            await answers.window()  # refusals count too: who does not read them is not read either
            if message.type is WSMsgType.TEXT:
                taken = self._intake.take(principal, message.data.encode())
            elif message.type is WSMsgType.BINARY:
                binary = InvalidRequest("frames are JSON text, not binary")
                taken = self._intake.refuse(principal, message.data, binary)
            else:
                continue  # a frame that aiohttp itself refused, and closes the socket for
            await self._intake.submit(taken, answers, orjson.dumps)


def _answer(event: InboundEvent, position: int, outcome: Any) -> dict[str, Any] | Refused:
    if isinstance(outcome, CourierError):
        return Refused(event.source_event_id, outcome)
    if isinstance(outcome, Exception):
        return Refused(event.source_event_id, StorageUnavailable("the journal met an error; send it again"))
    seq = outcome.seqs[position]
    if seq == 0:
        return Refused(event.source_event_id, outcome.refusal(position))
    return skyra.ack(event, seq, outcome.duplicates.get(position))


def shown(answer: dict[str, Any] | Refused) -> dict[str, Any]:
    """An answer as it is told; a refusal is counted."""
    if not isinstance(answer, Refused):
        return answer
    REFUSALS[answer.error.code] += 1
    return skyra.nack(answer.event_id, answer.error)

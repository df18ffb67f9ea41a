"""`POST /v1/enqueue`: one event, or many as lines of JSON."""

from typing import Any

import orjson
from aiohttp import web

from broker.admission.auth import Principal
from broker.admission.commits import committed
from broker.admission.gate import Gate
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, Draining, InvalidRequest, TooLarge
from broker.front.guard import PRINCIPAL
from broker.front.replies import error_frame, json_response
from broker.front.requests import JSON, NDJSON, check_content_type
from broker.journal.submission import Receipts
from broker.limits import NDJSON_LINES_MAX


class Enqueue:
    """The endpoint. An answer means that the events are on disk."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def handle(self, request: web.Request) -> web.Response:
        """Admit what the body holds, wait for its commit, answer with the sequences."""
        check_content_type(request, JSON, NDJSON)
        body = await request.read()
        if request.content_type == NDJSON:
            return await self._many(request[PRINCIPAL], body)
        event = self._gate.admit(request[PRINCIPAL], body)
        answer = answer_of(event, 0, await committed(self._gate, (event,)))
        if isinstance(answer, CourierError):
            raise answer
        return json_response(answer)

    async def _many(self, principal: Principal, body: bytes) -> web.Response:
        """One answer line for each line that is not blank, in order; the good ones are one submission."""
        answers: list[bytes] = []
        events: list[InboundEvent] = []
        places: list[tuple[int, int]] = []
        for number, line in enumerate(_lines(body), start=1):
            if not line or line.isspace():
                continue
            try:
                events.append(self._gate.admit(principal, line))
            except Draining:
                raise  # nothing was submitted, and no line would pass: the answer of the whole request
            except CourierError as error:
                answers.append(_error_line(error, number))
            else:
                places.append((len(answers), number))
                answers.append(b"")
        if not answers:
            raise InvalidRequest('the body has no line; send one {"to": stream, "envelope": {…}} a line')
        if events:
            receipts = await committed(self._gate, events)
            for position, (place, number) in enumerate(places):
                answer = answer_of(events[position], position, receipts)
                if isinstance(answer, CourierError):
                    answers[place] = _error_line(answer, number)
                else:
                    answers[place] = orjson.dumps(answer)
        return web.Response(body=b"\n".join([*answers, b""]), content_type=NDJSON)


def _lines(body: bytes) -> list[bytes]:
    """The lines of a body. They are counted before they are cut: a body of line ends alone would fill the memory."""
    count = body.count(b"\n") + (not body.endswith(b"\n"))
    if count > NDJSON_LINES_MAX:
        raise TooLarge(f"the body has {count} lines; at most {NDJSON_LINES_MAX} are taken at once: split it")
    return body.split(b"\n")


def answer_of(event: InboundEvent, position: int, receipts: Receipts) -> dict[str, Any] | CourierError:
    """What became of one event of a submission."""
    seq = receipts.seqs[position]
    if seq == 0:
        return receipts.refusal(position)
    return courier.reply(event.source_event_id, seq, receipts.duplicates.get(position))


def _error_line(error: CourierError, number: int) -> bytes:
    error.detail["line"] = number
    return error_frame(error)

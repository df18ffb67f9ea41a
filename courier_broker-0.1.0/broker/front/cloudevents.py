"""`POST /v1/cloudevents`: events as CloudEvents 1.0, in each of the three modes of their HTTP binding.

A batch is taken whole or not at all: a sender that looks at the status alone must not take a 200 for more than it says.
"""

from typing import Any

import orjson
from aiohttp import hdrs, web

from broker.admission.auth import Principal
from broker.admission.commits import committed
from broker.admission.gate import Gate
from broker.clock import Clock
from broker.contracts import cloudevents, courier
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, StorageUnavailable, UnsupportedContentType
from broker.front.guard import PRINCIPAL
from broker.front.replies import json_response
from broker.front.requests import JSON, check_not_packed
from broker.journal.submission import Receipts


class CloudEventsEndpoint:
    """The endpoint. An answer of 200 means that every event is stored as its stream promises."""

    def __init__(self, gate: Gate, clock: Clock, default_stream: str | None) -> None:
        self._gate = gate
        self._clock = clock
        self._default_stream = default_stream

    async def handle(self, request: web.Request) -> web.Response:
        """Admit what came, wait for its commit, and answer as `/v1/enqueue` does; a batch with an array."""
        check_not_packed(request)
        mode = request.content_type
        if mode == cloudevents.BATCHED:
            return await self._batch(request[PRINCIPAL], cloudevents.split_batch(await request.read()))
        if mode == cloudevents.STRUCTURED:
            raw = await request.read()
        elif (
            not mode.startswith("application/cloudevents")
            and f"{cloudevents.HEADER_PREFIX}specversion" in request.headers
        ):
            raw = await _binary(request)
        else:
            raise UnsupportedContentType(
                f"the content type is {mode!r}; send {cloudevents.STRUCTURED}, {cloudevents.BATCHED}, or the "
                f"attributes in {cloudevents.HEADER_PREFIX} headers"
            )
        event = self._admit(request[PRINCIPAL], raw)
        receipts = await committed(self._gate, (event,))
        if receipts.seqs[0] == 0:
            raise receipts.refusal(0)
        return json_response(_answer(event, 0, receipts))

    def _admit(self, principal: Principal, raw: bytes) -> InboundEvent:
        event = cloudevents.parse(raw, self._default_stream, self._clock.wall_us())
        self._gate.pass_event(principal, event)
        return event

    async def _batch(self, principal: Principal, batch: list[bytes]) -> web.Response:
        events: list[InboundEvent] = []
        for index, raw in enumerate(batch):
            try:
                events.append(self._admit(principal, raw))
            except CourierError as error:
                error.detail["index"] = index
                raise
        answers: list[dict[str, Any]] = []
        if events:
            receipts = await committed(self._gate, events)
            for index, event in enumerate(events):
                if receipts.seqs[index] == 0:
                    reason = receipts.refusal(index).message
                    raise StorageUnavailable(f"some of the batch was not stored: {reason}; send it again", index=index)
                answers.append(_answer(event, index, receipts))
        return web.Response(body=orjson.dumps(answers), content_type=JSON)


async def _binary(request: web.Request) -> bytes:
    prefix = cloudevents.HEADER_PREFIX
    headers = [(name, value) for name, value in request.headers.items() if name.lower().startswith(prefix)]
    return cloudevents.structured(headers, request.headers.get(hdrs.CONTENT_TYPE), await request.read())


def _answer(event: InboundEvent, position: int, receipts: Receipts) -> dict[str, Any]:
    return courier.reply(event.source_event_id, receipts.seqs[position], receipts.duplicates.get(position))

"""The HTTP endpoints of producers."""

import asyncio
from typing import Any

from aiohttp import web

from broker.admission.gate import Gate
from broker.contracts import courier
from broker.errors import UnsupportedContentType
from broker.front.guard import PRINCIPAL
from broker.front.replies import json_response


def check_json(request: web.Request) -> None:
    """Raise UnsupportedContentType unless the body is declared as JSON, which a form on a web page cannot do."""
    if request.content_type != "application/json":
        raise UnsupportedContentType(
            f"the content type is {request.content_type!r}; send JSON as 'Content-Type: application/json'"
        )


class Enqueue:
    """`POST /v1/enqueue`: one event, answered when it is on disk."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def handle(self, request: web.Request) -> web.Response:
        """Admit the event, wait for its commit, answer with its sequence."""
        check_json(request)
        body = await request.read()
        committed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(outcome: Any) -> None:
            if committed.done():
                return
            if isinstance(outcome, Exception):
                committed.set_exception(outcome)
            else:
                committed.set_result(outcome)

        event = self._gate.enqueue(request[PRINCIPAL], body, done)
        receipts = await committed
        seq = receipts.seqs[0]
        if seq == 0:
            raise receipts.refusal(0)
        return json_response(courier.reply(event.source_event_id, seq, receipts.duplicates.get(0)))

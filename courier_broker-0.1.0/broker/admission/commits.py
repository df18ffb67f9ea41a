"""Waiting for the commit of events that were admitted."""

import asyncio
from collections.abc import Sequence
from typing import Any

from broker.admission.gate import Gate
from broker.contracts.inbound import InboundEvent
from broker.journal.submission import Job, Receipts


async def committed(
    gate: Gate, events: Sequence[InboundEvent], job: Job | None = None, *, effects: bool = False
) -> Receipts:
    """Submit events together, and wait for their commit; raise what kept them from it."""
    answer: asyncio.Future[Receipts] = asyncio.get_running_loop().create_future()

    def done(outcome: Any) -> None:
        if answer.done():
            return
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    gate.submit(events, done, job, effects)
    return await answer

"""From an event to its receipt: through the gate, and back when it is kept."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from _fast import receipts_of
from broker.admission.auth import EVERY_SCOPE, LOCAL, Principal
from broker.bus import EventBus
from broker.config import Bus as BusConfig
from broker.contracts.inbound import InboundEvent
from broker.core import Core
from broker.embedded.event import Receipt
from broker.embedded.turns import Turns
from broker.errors import CourierError
from broker.journal.submission import Receipts
from broker.scheduler.scheduler import Scheduler

HOST = Principal(LOCAL, EVERY_SCOPE)
"""The program around: it may do everything, as it could with the file itself."""


class Producer:
    """Submits events, and knows how many are unanswered."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._unanswered = 0
        self._progress = asyncio.Event()
        self._turns = Turns()

    def admit(self, to: str, envelope: bytes) -> InboundEvent:
        """An event that may pass; raise the CourierError that says why not."""
        return self._core.gate.admit_envelope(HOST, to, envelope)

    def admit_many(self, pairs: list[Any]) -> list[InboundEvent] | None:
        """Events that may pass, from streams with their envelopes; None when they are to be admitted one by one."""
        return self._core.gate.admit_pairs(HOST, pairs)

    def admit_frame(self, frame: bytes) -> list[InboundEvent] | None:
        """The events of a request or of an array of them; None when they are to be admitted one by one."""
        return self._core.gate.admit_frame(HOST, frame)

    def admit_request(self, request: bytes) -> InboundEvent:
        """The same for `{"to", "envelope"}`."""
        return self._core.gate.admit(HOST, request)

    async def submit(self, events: Sequence[InboundEvent], done: Callable[..., None]) -> None:
        """Submit events together, when there is room; `done` learns what became of them."""
        self._unanswered += 1

        def answered(outcome: Any) -> None:
            self._unanswered -= 1
            self._progress.set()
            done(outcome)

        try:
            await self._core.room(len(events))
            self._core.gate.submit(events, answered)
        except BaseException:
            self._unanswered -= 1
            self._progress.set()
            raise

    async def keep(self, events: Sequence[InboundEvent]) -> Receipts:
        """Submit events together and wait until they are kept; raise what kept them from it.

        Events in memory are kept at once: no future is made for them.
        """
        answer = _Answer()
        await self.submit(events, answer.take)
        if answer.outcome is None:
            answer.waiting = asyncio.get_running_loop().create_future()
            await answer.waiting
        elif self._turns.is_over(len(events)):
            await self._turns.pause()
        if isinstance(answer.outcome, Exception):
            raise answer.outcome
        receipts: Receipts = answer.outcome
        return receipts

    def bus(self, config: BusConfig) -> EventBus:
        """An event bus whose events go this way."""
        core = self._core
        return EventBus(core.registry, self.publish, _Deferring(core.scheduler), core.clock, config)

    async def publish(self, event: InboundEvent) -> int:
        """Put an event of the bus into the journal; its sequence, once it is kept."""
        self._core.gate.pass_event(HOST, event)
        answer = receipt(event, 0, await self.keep((event,)))
        if isinstance(answer, CourierError):
            raise answer
        return answer.seq

    async def settled(self) -> None:
        """Wait until everything that was submitted is answered."""
        while self._unanswered:
            self._progress.clear()
            await self._progress.wait()


class _Answer:
    """What became of a submission, for the one who waits for it."""

    __slots__ = ("outcome", "waiting")

    def __init__(self) -> None:
        self.outcome: Any = None
        self.waiting: asyncio.Future[None] | None = None

    def take(self, outcome: Any) -> None:
        """It is known."""
        self.outcome = outcome
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


def receipts_for(events: Sequence[InboundEvent], receipts: Receipts) -> list[Receipt]:
    """What became of events; raise the error of the first one that was refused, with its position."""
    answers = receipts_of(Receipt, events, list(receipts.seqs), receipts.duplicates)
    if answers is None:
        position = receipts.seqs.index(0)
        refusal = receipts.refusal(position)
        refusal.detail["position"] = position
        raise refusal
    return answers


def receipt(event: InboundEvent, position: int, receipts: Receipts) -> Receipt | CourierError:
    """What became of the event at a position."""
    seq = receipts.seqs[position]
    if seq == 0:
        return receipts.refusal(position)
    _, conflict = receipts.duplicates.get(position, (0, False))
    return Receipt(event.source_event_id, abs(seq), seq < 0, conflict)


class _Deferring:
    """The scheduler, as the program around uses it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.cancel = scheduler.cancel
        self.caught_up = scheduler.caught_up

    async def put_off(self, event: InboundEvent, fire_at: int) -> int:
        """Keep an event of the bus until a time; its id."""
        return (await self._scheduler.put_off(HOST, event, fire_at)).id

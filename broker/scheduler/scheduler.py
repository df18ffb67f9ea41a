"""Scheduler: keeps events until their time, and lets them go through the gate then.

    put_off ──► deferrals (on disk)          page of what is due ──► gate ──► journal: event and mark in one commit
        └─────► alarm ───── it is time ────────────┘                   └────► refused: waits, longer each time

Only the next time and one page are in memory. An event is marked as fired in the transaction that stores it, so it
is neither lost nor there twice, whatever the moment of a crash. For a stream in memory there is no such transaction:
the event is in its stream first and marked then, and a crash between the two lets it fire again into an empty stream.

A page is read on another thread, and meanwhile somebody may cancel what is in it. So whatever a cancellation was begun
for is left out of the page. One that comes after the page was submitted is behind it at the writer, and finds it fired.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Protocol

from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.clock import Clock
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, Saturated, StorageFailed
from broker.journal.deferrals import Deferral, Due, Kept, Page, Refusal, deferral_of
from broker.journal.submission import Job, Receipts
from broker.limits import SCHEDULE_RETRY_SECONDS_MAX, SCHEDULE_RETRY_SECONDS_MIN, SCHEDULE_UNANSWERED_MAX
from broker.scheduler.alarm import Alarm
from broker.scheduler.tally import Tally

log = logging.getLogger(__name__)


class Book(Protocol):
    """Where it is written down what is put off."""

    async def put_off(self, deferral: Deferral) -> Kept:
        """Keep an event until its time."""

    async def cancel(self, deferred_id: int) -> bool:
        """Let an event never happen; False if it was not waiting."""

    async def page(self, now_us: int, but: Collection[int]) -> Page:
        """What is due, without some."""

    def fired(self, events: Sequence[tuple[int, InboundEvent]], now_us: int) -> Job:
        """The job that marks events, to be committed with them."""

    async def offered(self, ids: Sequence[int], now_us: int) -> None:
        """Mark what is in its stream in memory."""

    async def refused(self, refusals: Sequence[Refusal]) -> None:
        """Keep why events were not taken, and let them wait."""


class Scheduler:
    """Everything that is put off. Made stopped; ends with `close`."""

    def __init__(self, book: Book, gate: Gate, clock: Clock, room: Callable[[int], Awaitable[None]]) -> None:
        self._book = book
        self._gate = gate
        self._clock = clock
        self._room = room
        self._alarm = Alarm(clock)
        self._task: asyncio.Task[None] | None = None
        self._caught_up = asyncio.Event()
        self._unanswered = 0
        self._cancelling: set[int] = set()
        """Whose cancellation is on its way to the disk."""
        self._cancelled: set[int] = set()
        """Whose cancellation has reached it while a page was read."""
        self._reading = False
        self._failures = 0
        """How often in a row a whole page could not be dealt with."""
        self.tally = Tally()

    # For whoever puts off.

    async def put_off(self, principal: Principal, event: InboundEvent, fire_at: int, *, is_named: bool = False) -> Kept:
        """Keep an event of the bus or the Courier contract until a time, in microseconds since 1970.

        Return when that is durable; raise the CourierError that says why it was not taken. With `is_named`, an event
        of the same identity is kept once only.
        """
        self._gate.pass_event(principal, event)
        if self._unanswered >= SCHEDULE_UNANSWERED_MAX:
            raise Saturated(
                f"{self._unanswered} deferred events wait for the disk already; slow down, and send it again"
            )
        self._unanswered += 1
        try:
            kept = await self._book.put_off(deferral_of(event, fire_at, is_named=is_named))
        finally:
            self._unanswered -= 1
        if kept.duplicate:
            self.tally.repeated += 1
        else:
            self.tally.put_off += 1
            self._alarm.bring_forward(kept.fire_at)
        return kept

    async def cancel(self, deferred_id: int) -> bool:
        """Let an event never happen; False if it has fired, was cancelled before, or is not known."""
        self._cancelling.add(deferred_id)
        try:
            cancelled = await self._book.cancel(deferred_id)
        except BaseException:
            self._alarm.bring_forward(self._clock.wall_us())  # it may have been left out, and still be there
            raise
        finally:
            self._cancelling.discard(deferred_id)
            if self._reading:
                self._cancelled.add(deferred_id)
        self.tally.cancelled += cancelled
        return cancelled

    # From start to end.

    def start(self) -> None:
        """Let events go when they are due, those first that became so while nobody looked."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="scheduler")

    async def caught_up(self) -> None:
        """Wait until everything has gone that was due at the start."""
        await self._caught_up.wait()

    def look(self) -> None:
        """Look at the clock now: it may have been set."""
        self._alarm.look()

    async def close(self) -> None:
        """Let nothing go any more. What was handed to the journal is committed with its mark."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._caught_up.set()

    async def _run(self) -> None:
        try:
            while await self._step():
                pass
        finally:
            self._caught_up.set()

    async def _step(self) -> bool:
        """Let one page go, or wait for the next time; False when the journal has failed."""
        self._alarm.clear()
        try:
            page = await self._read()
            if page.due:
                await self._let_go(page.due)
        except StorageFailed:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, what is due is still there, and is tried again
            await self._pause(error)
            return True
        self._failures = 0
        self._alarm.bring_forward(page.next_at)
        if not page.due:
            self._caught_up.set()
            await self._alarm.wait()
        return True

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        self._caught_up.set()  # nobody is to wait for a disk that may stay full
        seconds = _backoff_seconds(self._failures)
        log.log(
            logging.WARNING if isinstance(error, CourierError) else logging.ERROR,
            "what is due cannot be published now, and is tried again in %.0f s: %s",
            seconds,
            error,
            exc_info=None if isinstance(error, CourierError) else error,
        )
        await asyncio.sleep(seconds)

    async def _read(self) -> Page:
        self._cancelled.clear()
        self._reading = True
        try:
            return await self._book.page(self._clock.wall_us(), frozenset(self._cancelling))
        finally:
            self._reading = False

    # What is due.

    async def _let_go(self, due: Sequence[Due]) -> None:
        await self._room(len(due))
        now_us = self._clock.wall_us()
        durable: list[tuple[Due, InboundEvent]] = []
        in_memory: list[tuple[Due, InboundEvent]] = []
        refusals: list[Refusal] = []
        for each in due:
            if each.id in self._cancelling or each.id in self._cancelled:
                continue
            try:
                event = each.event(now_us)
                self._gate.pass_due(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not hold up those behind
                refusals.append(self._refusal(each, error))
            else:
                (in_memory if self._gate.is_in_memory(event.stream) else durable).append((each, event))
        if durable:
            job = self._book.fired([(each.id, event) for each, event in durable], now_us)
            refusals += self._settled(durable, await self._submit([event for _, event in durable], job))
        if in_memory:
            refused = self._settled(in_memory, await self._submit([event for _, event in in_memory], None))
            taken = {each.id for each, _ in in_memory} - {each.id for each in refused}
            await self._book.offered(sorted(taken), now_us)
            refusals += refused
        if refusals:
            self.tally.refused += len(refusals)
            await self._book.refused(refusals)

    async def _submit(self, events: Sequence[InboundEvent], job: Job | None) -> Receipts:
        """Hand events to the gate, and wait until they are kept; raise what kept them from it."""
        answer: asyncio.Future[Receipts] = asyncio.get_running_loop().create_future()

        def done(outcome: Any) -> None:
            if answer.done():
                return
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        self._gate.submit(events, done, job)
        return await answer

    def _settled(self, submitted: Sequence[tuple[Due, InboundEvent]], receipts: Receipts) -> list[Refusal]:
        """Count what was taken; what was not."""
        now_us = self._clock.wall_us()
        refusals = []
        for position, (due, _event) in enumerate(submitted):
            if receipts.seqs[position] == 0:
                refusals.append(self._refusal(due, receipts.refusal(position)))
            else:
                self.tally.fired += 1
                self.tally.late_us.record(max(0, now_us - due.fire_at))
        return refusals

    def _refusal(self, due: Due, error: Exception) -> Refusal:
        reason = error.message if isinstance(error, CourierError) else f"{type(error).__name__}: {error}"
        if due.attempts == 0:
            log.warning("deferred event %d is due, but stream %s does not take it: %s", due.id, due.stream, reason)
        retry_at = self._clock.wall_us() + round(_backoff_seconds(due.attempts + 1) * 1e6)
        return Refusal(due.id, reason, retry_at)


def _backoff_seconds(failures: int) -> float:
    """How long to wait after so many failures in a row: twice as long each time."""
    return min(SCHEDULE_RETRY_SECONDS_MIN * 2.0 ** min(failures - 1, 30), SCHEDULE_RETRY_SECONDS_MAX)

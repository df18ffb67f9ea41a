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
from typing import Any, NamedTuple, Protocol

from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.clock import Clock
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, Saturated, StorageFailed
from broker.journal.deferrals import Deferral, Due, Following, Kept, Page, Refusal, deferral_of
from broker.journal.submission import Job, Receipts
from broker.limits import SCHEDULE_RETRY_SECONDS_MAX, SCHEDULE_RETRY_SECONDS_MIN, SCHEDULE_UNANSWERED_MAX
from broker.scheduler.alarm import Alarm
from broker.scheduler.recurring import Recurring, Verdict
from broker.scheduler.tally import Tally

log = logging.getLogger(__name__)


class Book(Protocol):
    """Where it is written down what is put off."""

    async def put_off(self, deferral: Deferral) -> Kept:
        """Keep an event until its time."""

    async def cancel(self, deferred_id: int, now_us: int) -> bool:
        """Let an event never happen; False if it was not waiting."""

    async def page(self, now_us: int, but: Collection[int]) -> Page:
        """What is due, without some."""

    def fired(self, events: Sequence[tuple[int, InboundEvent]], following: Sequence[Following], now_us: int) -> Job:
        """The job that marks events, and puts off the runs that follow them, to be committed with them."""

    async def offered(self, ids: Sequence[int], following: Sequence[Following], now_us: int) -> None:
        """Mark what is in its stream in memory, and put off the runs that follow."""

    async def count(self) -> int:
        """How much is put off."""

    async def passed_over(self, ids: Sequence[int], following: Sequence[Following], now_us: int) -> None:
        """Let runs never happen, but put off those that follow."""

    async def refused(self, refusals: Sequence[Refusal]) -> None:
        """Keep why events were not taken, and let them wait."""


class _Going(NamedTuple):
    """An event that is due."""

    due: Due
    event: InboundEvent
    following: Following | None
    """The run after it."""


class _SortedOut:
    """The events of a page, by what is to become of them."""

    def __init__(self) -> None:
        self.durable: list[_Going] = []
        self.in_memory: list[_Going] = []
        self.passed_over: list[_Going] = []
        self.refusals: list[Refusal] = []


class Scheduler:
    """Everything that is put off. Made stopped; ends with `close`."""

    def __init__(
        self,
        book: Book,
        gate: Gate,
        clock: Clock,
        room: Callable[[int], Awaitable[None]],
        recurring: Recurring | None = None,
    ) -> None:
        self._book = book
        self._recurring = recurring
        self._turn = asyncio.Lock() if recurring is None else recurring.turn
        self._gate = gate
        self._clock = clock
        self._room = room
        self._alarm = Alarm(clock)
        if recurring is not None:
            recurring.on_next = self._alarm.bring_forward
        self._task: asyncio.Task[None] | None = None
        self._caught_up = asyncio.Event()
        self._unanswered = 0
        self._cancelling: set[int] = set()
        """Whose cancellation is on its way to the disk."""
        self._cancelled: set[int] = set()
        """Whose cancellation has reached it while a page was chosen."""
        self._choosing = False
        """Whether a page is being read, and it is not decided yet what of it goes."""
        self._offered: frozenset[int] = frozenset()
        """What was just offered to streams in memory, and is not marked yet."""
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
        if deferred_id in self._offered:
            return False
        # Shielded: the page must leave it out until it is known what became of the job that is on its way.
        return await asyncio.shield(asyncio.ensure_future(self._cancel(deferred_id)))

    async def _cancel(self, deferred_id: int) -> bool:
        self._cancelling.add(deferred_id)
        cancelled = False
        try:
            cancelled = await self._book.cancel(deferred_id, self._clock.wall_us())
        finally:
            if not cancelled:  # it may have been left out of a page, and still be there: a run cannot be cancelled
                self._alarm.bring_forward(self._clock.wall_us())
            self._cancelling.discard(deferred_id)
            if self._choosing:
                self._cancelled.add(deferred_id)
        self.tally.cancelled += cancelled
        return cancelled

    # From start to end.

    def start(self) -> None:
        """Let events go when they are due, those first that became so while nobody looked."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="scheduler")

    async def waiting(self) -> int:
        """How much is put off now."""
        return await self._book.count()

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
            async with self._turn:
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
        self._choosing = True
        page = await self._book.page(self._clock.wall_us(), frozenset(self._cancelling))
        self._choosing = bool(page.due)
        return page

    # What is due.

    async def _let_go(self, due: Sequence[Due]) -> None:
        await self._room(len(due))
        out = self._sort_out(due, self._clock.wall_us())
        # From here to the two submissions nothing is awaited: a cancellation comes before all of it, or after.
        self._choosing = False
        self._offered = frozenset(each.due.id for each in out.in_memory)
        try:
            offered, committed = (
                self._submit(out.in_memory),
                self._submit(out.durable, self._mark(out.durable) if out.durable else None),
            )
            refusals = await asyncio.gather(
                self._mark_offered(out.in_memory, offered), self._committed(out.durable, committed)
            )
        finally:
            self._offered = frozenset()
        if out.passed_over:
            await self._pass_over(out.passed_over)
        if every := [*out.refusals, *refusals[0], *refusals[1]]:
            await self._book.refused(every)
            self.tally.refused += len(every)

    async def _pass_over(self, going: Sequence[_Going]) -> None:
        """Runs that were missed, and are not made up for."""
        await self._book.passed_over([each.due.id for each in going], _following(going), self._clock.wall_us())
        self.tally.passed_over += len(going)
        self._wait_for(_following(going))

    def _sort_out(self, due: Sequence[Due], now_us: int) -> _SortedOut:
        """What is to become of each."""
        out = _SortedOut()
        for each in due:
            if each.id in self._cancelling or each.id in self._cancelled:
                continue
            try:
                verdict = Verdict(True, None)
                if each.recurrence is not None and self._recurring is not None:
                    verdict = self._recurring.verdict(each, now_us)
                event = each.event(now_us)
                if verdict.fires:
                    self._gate.pass_due(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not hold up those behind
                out.refusals.append(self._refusal(each, error))
                continue
            going = _Going(each, event, verdict.following)
            if not verdict.fires:
                out.passed_over.append(going)
            elif self._gate.is_in_memory(event.stream):
                out.in_memory.append(going)
            else:
                out.durable.append(going)
        return out

    def _mark(self, going: Sequence[_Going]) -> Job:
        """The job that is committed with the events."""
        events = [(each.due.id, each.event) for each in going]
        return self._book.fired(events, _following(going), self._clock.wall_us())

    async def _committed(self, going: Sequence[_Going], receipts: asyncio.Future[Receipts] | None) -> list[Refusal]:
        """Wait for the disk; the events that were not taken."""
        if receipts is None:
            return []
        refusals = self._settled(going, await receipts)
        self._wait_for(_following(going))
        return refusals

    async def _mark_offered(self, going: Sequence[_Going], receipts: asyncio.Future[Receipts] | None) -> list[Refusal]:
        """Mark what is in its stream in memory; the events that were not taken."""
        if receipts is None:
            return []
        refusals = self._settled(going, await receipts)
        refused = {each.id for each in refusals}
        taken = [each for each in going if each.due.id not in refused]
        await self._book.offered([each.due.id for each in taken], _following(taken), self._clock.wall_us())
        self._wait_for(_following(taken))
        return refusals

    def _wait_for(self, following: Sequence[Following]) -> None:
        for each in following:
            self._alarm.bring_forward(each.fire_at)

    def _submit(self, going: Sequence[_Going], job: Job | None = None) -> asyncio.Future[Receipts] | None:
        """Hand events to the gate now; what becomes of them, None if there are none."""
        if not going:
            return None
        answer: asyncio.Future[Receipts] = asyncio.get_running_loop().create_future()

        def done(outcome: Any) -> None:
            if answer.done():
                return
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        self._gate.submit([each.event for each in going], done, job)
        return answer

    def _settled(self, going: Sequence[_Going], receipts: Receipts) -> list[Refusal]:
        """Count what was taken; what was not."""
        now_us = self._clock.wall_us()
        refusals = []
        for position, each in enumerate(going):
            if receipts.seqs[position] == 0:
                refusals.append(self._refusal(each.due, receipts.refusal(position)))
            else:
                self.tally.fired += 1
                self.tally.late_us.record(max(0, now_us - each.due.fire_at))
        return refusals

    def _refusal(self, due: Due, error: Exception) -> Refusal:
        reason = error.message if isinstance(error, CourierError) else f"{type(error).__name__}: {error}"
        if due.attempts == 0:
            log.warning("deferred event %d is due, but stream %s does not take it: %s", due.id, due.stream, reason)
        retry_at = self._clock.wall_us() + round(_backoff_seconds(due.attempts + 1) * 1e6)
        return Refusal(due.id, reason, retry_at)


def _following(going: Sequence[_Going]) -> list[Following]:
    """The runs that come after."""
    return [each.following for each in going if each.following is not None]


def _backoff_seconds(failures: int) -> float:
    """How long to wait after so many failures in a row: twice as long each time."""
    return min(SCHEDULE_RETRY_SECONDS_MIN * 2.0 ** min(failures - 1, 30), SCHEDULE_RETRY_SECONDS_MAX)

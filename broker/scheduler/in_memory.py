"""What is put off in a broker without a journal, and lost with the process."""

import heapq
from collections.abc import Collection, Sequence

from broker.contracts.inbound import InboundEvent
from broker.errors import OverQuota
from broker.journal.deferrals import Deferral, Due, Following, Kept, Page, Refusal
from broker.journal.submission import Job
from broker.limits import SCHEDULE_IN_MEMORY_MAX, SCHEDULE_PAGE_MAX


class DeferralsInMemory:
    """As `Deferrals`. What has fired or was cancelled is forgotten."""

    def __init__(self) -> None:
        self._waiting: dict[int, Due] = {}
        self._due_at: dict[int, int] = {}
        self._named: dict[tuple[str, str], int] = {}
        self._queue: list[tuple[int, int]] = []
        """(when it is due, its id); what is not in `_due_at` with this time is left over, and passed by."""
        self._last_id = 0

    async def put_off(self, deferral: Deferral) -> Kept:
        """Keep an event until its time; what is named like one that waits is not kept twice."""
        name = (deferral.source, deferral.event_id or "")
        if deferral.event_id is not None and (known := self._named.get(name)) is not None:
            first = self._waiting[known]
            conflict = first.envelope != deferral.envelope
            return Kept(known, "scheduled", first.fire_at, duplicate=True, conflict=conflict)
        if len(self._waiting) >= SCHEDULE_IN_MEMORY_MAX:
            raise OverQuota(f"{SCHEDULE_IN_MEMORY_MAX} events are put off already, and this broker is in memory only")
        self._last_id += 1
        contract, stream, source, event_id, correlation_id, envelope, _created_at, fire_at, _recurrence = deferral
        due = Due(self._last_id, contract, stream, source, event_id, correlation_id, envelope, fire_at, 0)
        if event_id is not None:
            self._named[name] = due.id
        self._wait(due, fire_at)
        return Kept(due.id, "scheduled", fire_at, duplicate=False, conflict=False)

    def _wait(self, due: Due, due_at: int) -> None:
        self._waiting[due.id] = due
        self._due_at[due.id] = due_at
        heapq.heappush(self._queue, (due_at, due.id))

    async def count(self) -> int:
        """How much is put off."""
        return len(self._waiting)

    async def cancel(self, deferred_id: int, now_us: int) -> bool:  # noqa: ARG002 - nothing of it is kept
        """Let an event never happen; False if it was not waiting."""
        return self._forget(deferred_id)

    def _forget(self, deferred_id: int) -> bool:
        gone = self._waiting.pop(deferred_id, None)
        if gone is None:
            return False
        del self._due_at[deferred_id]
        if gone.event_id is not None:
            del self._named[gone.source, gone.event_id]
        if len(self._queue) > 2 * len(self._waiting) + SCHEDULE_PAGE_MAX:  # most of it is left over
            self._queue = [(at, each) for each, at in self._due_at.items()]
            heapq.heapify(self._queue)
        return True

    async def page(self, now_us: int, but: Collection[int]) -> Page:  # noqa: ARG002 - nothing is on its way here
        """What is due."""
        due: list[tuple[int, int]] = []
        next_at: int | None = None
        while self._queue:
            at, deferred_id = self._queue[0]
            waits = self._due_at.get(deferred_id) == at
            if waits and (at > now_us or len(due) == SCHEDULE_PAGE_MAX):
                next_at = at
                break
            heapq.heappop(self._queue)
            if waits:
                due.append((at, deferred_id))
        for each in due:
            heapq.heappush(self._queue, each)
        return Page([self._waiting[deferred_id] for _, deferred_id in due], next_at)

    def fired(
        self,
        events: Sequence[tuple[int, InboundEvent]],  # noqa: ARG002 - as agreed
        following: Sequence[Following],  # noqa: ARG002
        now_us: int,  # noqa: ARG002
    ) -> Job:
        """No event is durable here."""
        raise AssertionError("a broker in memory has no event that is committed")

    async def passed_over(self, ids: Sequence[int], following: Sequence[Following], now_us: int) -> None:  # noqa: ARG002 - as agreed
        """Nothing recurs here."""
        raise AssertionError("a broker in memory has nothing that recurs")

    async def offered(self, ids: Sequence[int], following: Sequence[Following], now_us: int) -> None:  # noqa: ARG002 - as agreed
        """Forget what is in its stream."""
        for each in ids:
            self._forget(each)

    async def refused(self, refusals: Sequence[Refusal]) -> None:
        """Let events wait."""
        for deferred_id, _error, retry_at in refusals:
            if (waits := self._waiting.get(deferred_id)) is not None:
                self._wait(waits._replace(attempts=waits.attempts + 1), retry_at)

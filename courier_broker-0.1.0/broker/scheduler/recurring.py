"""All that recurs: kept in the journal, and at most one run of each is put off, the next one.

The run that follows is put off in the transaction that settles the one before. Its id is made of the name and the
time, so it cannot come about twice, whoever else finds out that it is next.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from broker.admission.auth import Principal
from broker.admission.gate import Gate
from broker.clock import Clock
from broker.contracts.courier import CONTRACT as COURIER
from broker.contracts.courier import source_system
from broker.contracts.times import shown_microseconds
from broker.errors import InvalidRequest, NotFound, OverQuota
from broker.journal import recurrences
from broker.journal.deferrals import Deferral, Due, Following
from broker.journal.reader import ReaderPool
from broker.limits import RECURRING_MAX, RECURRING_NAME_BYTES_MAX
from broker.scheduler.recurrence import Recurrence

log = logging.getLogger(__name__)
T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9._-]*[A-Za-z_-][A-Za-z0-9._-]*")


class Ledger(Protocol):
    """What is needed of the journal."""

    readers: ReaderPool

    async def execute(self, job: Callable[..., T]) -> T:
        """Run a job on the write connection; its result, once that is on disk."""


class Verdict(NamedTuple):
    """What becomes of a run that is due."""

    fires: bool
    following: Following | None


class Entry(NamedTuple):
    """What recurs, with its runs."""

    name: str
    recurrence: Recurrence
    next_at: int | None
    last_at: int | None
    error: str | None
    """Why the next run, though due, was not taken."""


class Recurring:
    """Every recurrence by its name."""

    def __init__(self, journal: Ledger, gate: Gate, clock: Clock) -> None:
        self._journal = journal
        self._gate = gate
        self._clock = clock
        self._known: dict[str, Recurrence] = {}
        self.turn = asyncio.Lock()
        """Held while a page goes, and while something is changed here: a run that is going cannot be replaced."""
        self.on_next: Callable[[int], None] = lambda _at: None
        """Told when a run is put off that nobody waits for yet."""

    def __len__(self) -> int:
        return len(self._known)

    async def load(self) -> None:
        """Take up what was kept. What cannot be used is kept, and said in the log."""
        for name, text in await self._journal.readers.run(recurrences.load):
            try:
                recurrence = msgspec.json.decode(text, type=Recurrence)
                recurrence.check()
            except (InvalidRequest, msgspec.MsgspecError) as error:
                log.error("the recurrence %s cannot be used, and its runs wait: %s", name, error)
            else:
                self._known[name] = recurrence

    async def put(self, principal: Principal, name: str, recurrence: Recurrence) -> Entry:
        """Add what recurs, or replace what has this name; raise the CourierError that says why not."""
        if (problem := _name_problem(name)) is not None:
            raise InvalidRequest(f"name: {problem}")
        recurrence.check()
        now_us = self._clock.wall_us()
        example = _run(name, recurrence, now_us, now_us)
        due = Due(1, *example[:6], example.fire_at, 0, name)
        self._gate.pass_event(principal, due.event(now_us))
        async with self.turn:
            before = self._known.get(name)
            if before is None and len(self._known) >= RECURRING_MAX:
                raise OverQuota(f"there are {RECURRING_MAX} recurrences already; delete one first")
            if before is not None:
                principal.check_stream(before.stream, "enqueue")
            if recurrence.next_after(now_us) is None:
                raise InvalidRequest(f"cron: {recurrence.cron!r} does not come in the next 50 years")

            def first(last_at: int | None) -> Deferral | None:
                at = recurrence.next_after(max(now_us, last_at or 0))
                return None if at is None else _run(name, recurrence, at, now_us)

            text = msgspec.json.encode(recurrence)
            run = await self._journal.execute(lambda connection: recurrences.put(connection, name, text, first, now_us))
            self._known[name] = recurrence
        if run is not None:
            self.on_next(run.fire_at)
        return await self.find(name)

    async def delete(self, principal: Principal, name: str) -> None:
        """Remove what recurs; raise NotFound if there is nothing of this name."""
        async with self.turn:
            recurrence = self._get(name)
            principal.check_stream(recurrence.stream, "enqueue")
            await self._journal.execute(lambda connection: recurrences.delete(connection, name))
            del self._known[name]

    async def find(self, name: str) -> Entry:
        """One of them; raise NotFound if there is none."""
        recurrence = self._get(name)
        found = await self._journal.readers.run(recurrences.runs)
        return Entry(name, recurrence, *found.get(name, (None, None, None)))

    async def all(self) -> list[Entry]:
        """All of them, by name."""
        found = await self._journal.readers.run(recurrences.runs)
        return [Entry(name, self._known[name], *runs) for name, runs in found.items() if name in self._known]

    def _get(self, name: str) -> Recurrence:
        recurrence = self._known.get(name)
        if recurrence is None:
            raise NotFound(f"nothing recurs under the name {name[:200]!r}")
        return recurrence

    def verdict(self, due: Due, now_us: int) -> Verdict:
        """What becomes of a run; raise NotFound if it cannot be known what it is a run of."""
        assert due.recurrence is not None
        recurrence = self._get(due.recurrence)
        fires = recurrence.missed != "skip" or not recurrence.is_missed(due.fire_at, now_us)
        at = recurrence.following(due.fire_at, now_us)
        return Verdict(fires, None if at is None else Following(due.id, run_id(due.recurrence, at), at))


def run_id(name: str, at: int) -> str:
    """The id of a run."""
    return f"{name}@{shown_microseconds(at)}"


def _run(name: str, recurrence: Recurrence, at: int, now_us: int) -> Deferral:
    is_courier = recurrence.contract == COURIER
    return Deferral(
        recurrence.contract,
        recurrence.stream,
        source_system(recurrence.stream) if is_courier else recurrence.source,
        run_id(name, at),
        recurrence.correlation_id,
        recurrence.content.encode(),
        now_us,
        at,
        name,
    )


def _name_problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > RECURRING_NAME_BYTES_MAX:
        return f"it is {len(name)} characters long; at most {RECURRING_NAME_BYTES_MAX} are allowed"
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        return "it must be of A-Z a-z 0-9 . _ - with at least one that is neither a digit nor a dot"
    return None

"""What was put off: events that wait on disk for their time, and become events of the ledger once.

An event is marked as fired by a job that is committed with it. The job looks for the event in the ledger and does not
trust that it is there, so what was refused in the commit stays put off. Everything is done in a fixed number of
statements whatever the number of rows, because each row that apsw steps through costs a turn of the GIL.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import apsw
import orjson

from broker.contracts.bus import bus_event, source_system, topic_of
from broker.contracts.courier import CONTRACT as COURIER
from broker.contracts.courier import parse_envelope
from broker.contracts.inbound import InboundEvent
from broker.contracts.times import shown_microseconds
from broker.journal.reader import ReaderPool
from broker.journal.submission import Job
from broker.limits import SCHEDULE_ERROR_CHARACTERS_MAX, SCHEDULE_PAGE_BYTES_MAX, SCHEDULE_PAGE_MAX

T = TypeVar("T")


Status = Literal["scheduled", "fired", "cancelled"]


class Deferral(NamedTuple):
    """An event that is to be put off."""

    contract: str
    stream: str
    source: str
    """Of the bus, who published; of another contract, the source system."""
    event_id: str | None
    """Its id, if whoever puts it off names it; else it gets one when it is kept."""
    correlation_id: str | None
    envelope: bytes
    created_at: int
    """Like every time here, in microseconds since 1970."""
    fire_at: int
    recurrence: str | None = None
    """Whose run it is."""


class Kept(NamedTuple):
    """What became of a deferral."""

    id: int
    status: Status
    fire_at: int
    duplicate: bool
    """Whether it had been put off before; nothing was changed then."""
    conflict: bool
    """Whether a duplicate's bytes differ from those of the first."""


class Due(NamedTuple):
    """An event whose time has come."""

    id: int
    contract: str
    stream: str
    source: str
    event_id: str | None
    correlation_id: str | None
    envelope: bytes
    fire_at: int
    attempts: int
    recurrence: str | None = None

    def event(self, now_us: int) -> InboundEvent:
        """The event that it becomes; raise the CourierError that says why it cannot be one (any more)."""
        if self.contract == COURIER:
            return parse_envelope(self.stream, self._whole_envelope(), now_us)
        event_id = self.event_id or f"deferred-{self.id}"
        return bus_event(topic_of(self.stream), self.source, self.envelope, self.correlation_id, event_id, now_us)

    def _whole_envelope(self) -> bytes:
        """The envelope; that of a run is kept without what tells runs apart, which is put before the rest."""
        if self.recurrence is None:
            return self.envelope
        apart = orjson.dumps({"id": self.event_id, "ts": shown_microseconds(self.fire_at)})
        return apart[:-1] + b"," + self.envelope[1:]


class Page(NamedTuple):
    """The events that are due, the oldest first, or as many of them as one page holds."""

    due: list[Due]
    next_at: int | None
    """When to look again; None if nothing is put off."""


class Following(NamedTuple):
    """The run that comes after one."""

    after_id: int
    event_id: str
    fire_at: int


class Refusal(NamedTuple):
    """Why an event that was due was not taken, and when it is tried again."""

    id: int
    error: str
    retry_at: int


class Executor(Protocol):
    """What is needed of the journal."""

    readers: ReaderPool
    punctual: ReaderPool

    async def execute(self, job: Callable[..., T]) -> T:
        """Run a job on the write connection; its result, once that is on disk."""


_INSERT = """
INSERT INTO deferrals (contract, stream, source, event_id, correlation_id, envelope, created_at, fire_at, recurrence)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (source, event_id) WHERE event_id IS NOT NULL DO NOTHING
RETURNING id
"""
# Somebody may have put an event off under the id of a run. The run takes its place: else nothing would recur any more.
_ADOPTING = """
ON CONFLICT (source, event_id) WHERE event_id IS NOT NULL DO UPDATE SET recurrence = excluded.recurrence,
  correlation_id = excluded.correlation_id, envelope = excluded.envelope, fire_at = excluded.fire_at,
  status = 'scheduled', fired_at = NULL, settled_at = NULL, seq = NULL, retry_at = NULL, error = NULL
WHERE deferrals.recurrence IS NULL
"""
_INSERT_RUN = f"""
INSERT INTO deferrals (contract, stream, source, event_id, correlation_id, envelope, created_at, fire_at, recurrence)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) {_ADOPTING}
"""  # noqa: S608 - texts of this file
_NAMED = """
SELECT id, status, fire_at, envelope <> ?3 AND seq IS NULL FROM deferrals WHERE source = ?1 AND event_id = ?2
"""
_CANCEL = """
UPDATE deferrals SET status = 'cancelled', settled_at = ?2
WHERE id = ?1 AND status = 'scheduled' AND recurrence IS NULL
"""
_WAITING = f"""
SELECT {", ".join(Due._fields)}, due_at FROM deferrals INDEXED BY deferrals_due
WHERE status = 'scheduled' AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at, id
"""  # noqa: S608 - column names of this file
_COUNT = "SELECT count(*) FROM deferrals INDEXED BY deferrals_due WHERE status = 'scheduled'"
_FIRED = """
UPDATE deferrals SET status = 'fired', fired_at = ?2, settled_at = ?2, seq = found.seq, error = NULL, retry_at = NULL
FROM (
  SELECT value ->> 0 AS id, ledger.seq AS seq FROM json_each(?1) CROSS JOIN ledger
  ON source_system = value ->> 1 AND source_event_id = value ->> 2
) AS found
WHERE deferrals.id = found.id AND status = 'scheduled'
"""
# What has fired has its bytes in the ledger, and need not have them twice.
_EMPTIED = """
UPDATE deferrals SET envelope = x'' WHERE id IN (SELECT value ->> 0 FROM json_each(?)) AND seq IS NOT NULL
"""
_OFFERED = """
UPDATE deferrals SET status = 'fired', fired_at = ?2, settled_at = ?2, error = NULL, retry_at = NULL
WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'scheduled'
"""
_PASSED_OVER = """
UPDATE deferrals SET status = 'cancelled', settled_at = ?2,
  error = 'missed: ' || ((?2 - fire_at) / 1000000) || ' s late'
WHERE id IN (SELECT value FROM json_each(?1)) AND status = 'scheduled'
"""
# A run is followed by the next one in the transaction that settles it, and only if it does.
_NEXT_RUNS = f"""
INSERT INTO deferrals (contract, stream, source, event_id, correlation_id, envelope, created_at, fire_at, recurrence)
SELECT contract, stream, source, following.value ->> 1, correlation_id, envelope, ?2, following.value ->> 2, recurrence
FROM json_each(?1) AS following CROSS JOIN deferrals ON deferrals.id = following.value ->> 0
WHERE status <> 'scheduled' {_ADOPTING}
"""  # noqa: S608 - likewise
_REFUSED = """
UPDATE deferrals SET attempts = attempts + 1, error = refused.error, retry_at = refused.retry_at
FROM (SELECT value ->> 0 AS id, value ->> 1 AS error, value ->> 2 AS retry_at FROM json_each(?)) AS refused
WHERE deferrals.id = refused.id AND status = 'scheduled'
"""


def _json(rows: Collection[Any]) -> str:
    return orjson.dumps(list(rows)).decode()


def _settling(sql: str, rows: str, following: Sequence[Following], now_us: int) -> Job:
    """A job that settles what is due, and puts off the runs that follow."""
    next_runs = _json([tuple(each) for each in following])

    def job(connection: apsw.Connection) -> None:
        connection.execute(sql, (rows, now_us))
        if following:
            connection.execute(_NEXT_RUNS, (next_runs, now_us))

    return job


def put_off(connection: apsw.Connection, deferral: Deferral) -> Kept:
    """Keep an event until its time; what is named like one that is kept already is not kept twice."""
    new_id: int | None = connection.execute(_INSERT, deferral).get
    if new_id is not None:
        return Kept(new_id, "scheduled", deferral.fire_at, duplicate=False, conflict=False)
    row: Any = connection.execute(_NAMED, (deferral.source, deferral.event_id, deferral.envelope)).fetchone()
    known_id, status, fire_at, differs = row
    return Kept(known_id, status, fire_at, duplicate=True, conflict=bool(differs))


def put_off_run(connection: apsw.Connection, run: Deferral) -> None:
    """Keep the next run of what recurs until its time."""
    connection.execute(_INSERT_RUN, run)


def _counted(connection: apsw.Connection) -> int:
    count: int = connection.execute(_COUNT).get
    return count


def _cancelled(connection: apsw.Connection, deferred_id: int, now_us: int) -> bool:
    connection.execute(_CANCEL, (deferred_id, now_us))
    return connection.changes() > 0


def _page(connection: apsw.Connection, now_us: int, but: Collection[int]) -> Page:
    due: list[Due] = []
    size = 0
    rows: Iterator[Any] = connection.execute(_WAITING, (_json(but),))
    for *row, due_at in rows:
        if due_at > now_us:
            return Page(due, due_at)
        if len(due) == SCHEDULE_PAGE_MAX or size >= SCHEDULE_PAGE_BYTES_MAX:
            return Page(due, due_at)
        due.append(Due(*row))
        size += len(due[-1].envelope)
    return Page(due, None)


class Deferrals:
    """All that was put off, in the journal."""

    def __init__(self, journal: Executor) -> None:
        self._journal = journal

    async def put_off(self, deferral: Deferral) -> Kept:
        """Keep an event until its time; what is named like one that is kept already is not kept twice."""
        return await self._journal.execute(lambda connection: put_off(connection, deferral))

    async def cancel(self, deferred_id: int, now_us: int) -> bool:
        """Let an event never happen; False if it was not waiting."""
        return await self._journal.execute(lambda connection: _cancelled(connection, deferred_id, now_us))

    async def count(self) -> int:
        """How much is put off; from the index alone."""
        return await self._journal.readers.run(_counted)

    async def page(self, now_us: int, but: Collection[int]) -> Page:
        """What is due, without some."""
        return await self._journal.punctual.run(_page, now_us, but)

    def fired(self, events: Sequence[tuple[int, InboundEvent]], following: Sequence[Following], now_us: int) -> Job:
        """The job that marks those of the events that are in the ledger, to be committed with them."""
        rows = _json([(number, event.source_system, event.source_event_id) for number, event in events])
        mark = _settling(_FIRED, rows, following, now_us)

        def job(connection: apsw.Connection) -> None:
            mark(connection)
            connection.execute(_EMPTIED, (rows,))

        return job

    async def offered(self, ids: Sequence[int], following: Sequence[Following], now_us: int) -> None:
        """Mark what is in its stream in memory."""
        await self._journal.execute(_settling(_OFFERED, _json(ids), following, now_us))

    async def passed_over(self, ids: Sequence[int], following: Sequence[Following], now_us: int) -> None:
        """Let runs never happen, but those that follow them."""
        await self._journal.execute(_settling(_PASSED_OVER, _json(ids), following, now_us))

    async def refused(self, refusals: Sequence[Refusal]) -> None:
        """Keep why events were not taken, and let them wait."""
        rows = _json([(each.id, each.error[:SCHEDULE_ERROR_CHARACTERS_MAX], each.retry_at) for each in refusals])

        def job(connection: apsw.Connection) -> None:
            connection.execute(_REFUSED, (rows,))

        await self._journal.execute(job)


def deferral_of(event: InboundEvent, fire_at: int, *, is_named: bool) -> Deferral:
    """An admitted event as something to be put off."""
    source = event.source_system
    if event.contract != COURIER:
        source = source.removeprefix(source_system(""))
    return Deferral(
        event.contract,
        event.stream,
        source,
        event.source_event_id if is_named else None,
        event.correlation_id,
        event.envelope,
        event.received_at,
        fire_at,
    )

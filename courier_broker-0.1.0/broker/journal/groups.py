"""Consumer groups on disk: who has a copy of which stream, how far each has come, what died there.

What a group settled is written down in group commits, a little later than it happened: losing that means a
redelivery, no more. One write covers all groups that have something to say, in a fixed number of statements
whatever the number of rows, because each row that apsw steps through costs a turn of the GIL.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import apsw
import orjson

from broker.clock import Clock
from broker.errors import CourierError
from broker.journal import group_queries
from broker.journal.group_ledger import GroupLedger, Save
from broker.journal.group_queries import GroupRow, Registration
from broker.journal.reader import ReaderPool
from broker.journal.submission import Job, Receipts, Submission

log = logging.getLogger(__name__)
T = TypeVar("T")

SAVE_SECONDS = 0.05
"""How long what a group settled waits for more to be written with."""

RETRY_SECONDS = 1.0
"""How long to wait before a write that failed is tried again."""


class Appender(Protocol):
    """What is needed of the journal."""

    readers: ReaderPool

    def submit(self, submission: Submission) -> None:
        """Queue a submission."""

    async def append(self, events: Sequence[Any], job: Job | None = None) -> Receipts:
        """Commit a job."""


_CREATED = """
INSERT INTO group_streams (id, stream, name, position)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?) WHERE true ON CONFLICT DO NOTHING
"""
_MOVED = """
UPDATE group_streams SET position = moved.position
FROM (SELECT value ->> 0 AS id, value ->> 2 AS position FROM json_each(?)) AS moved WHERE group_streams.id = moved.id
"""
_ROWS_GIVEN = """
INSERT INTO group_events (group_id, seq, state, attempts, first_attempt_at, changed_at, error)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6 FROM json_each(?)
JOIN group_streams ON group_streams.id = value ->> 0 WHERE true
ON CONFLICT (group_id, seq) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
  first_attempt_at = excluded.first_attempt_at, changed_at = excluded.changed_at, error = excluded.error
"""
_ROWS_TAKEN = """
DELETE FROM group_events WHERE (group_id, seq) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
"""
_ROWS_PASSED = """
DELETE FROM group_events WHERE (group_id, seq) IN (
  SELECT group_id, seq FROM json_each(?) AS moved JOIN group_events
  ON group_id = moved.value ->> 0 AND seq > moved.value ->> 1 AND seq <= moved.value ->> 2 WHERE state = 1
)
"""
_FORGOTTEN = "DELETE FROM group_streams WHERE name = ?1 AND stream IN (SELECT value FROM json_each(?2))"


def _json(rows: Sequence[Any]) -> str:
    return orjson.dumps(rows).decode()


class GroupBook:
    """All groups of a journal."""

    def __init__(self, journal: Appender, clock: Clock, *, unsaved_max: int) -> None:
        self.clock = clock
        self.unsaved_max = unsaved_max
        self.registrations: list[Registration] = []
        """Who had which streams when the journal was opened."""
        self.groups: list[tuple[GroupRow, GroupLedger]] = []
        """Each copy of a stream when the journal was opened."""
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._next_id = 1
        self._new: list[GroupRow] = []
        self._touched: dict[GroupLedger, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Future[None] | None = None
        self._failures = 0

    async def load(self) -> None:
        """Read everything; once, when the journal was opened."""
        self.registrations = await self.run(group_queries.registrations)
        self.groups = [(row, GroupLedger(self, row)) for row in await self.run(group_queries.groups)]
        self._next_id = 1 + max((row.id for row, _ledger in self.groups), default=0)

    async def run(self, query: Callable[..., T], *args: Any) -> T:
        """Run a query on a reader."""
        return await self._journal.readers.run(query, *args)

    async def streams_of_ledger(self) -> list[str]:
        """Every stream that ever had an event. Reads the whole ledger."""
        return await self.run(group_queries.streams_of_ledger)

    @property
    def unsaved(self) -> int:
        """How many outcomes wait to be written."""
        return sum(ledger.unsaved for ledger in self._touched)

    def create(self, stream: str, name: str, position: int) -> GroupLedger:
        """Give a group a copy of a stream, from behind a sequence on. On disk before any later outcome is."""
        row = self._row(stream, name, position)
        self._new.append(row)
        self._save()
        return GroupLedger(self, row)

    def _row(self, stream: str, name: str, position: int) -> GroupRow:
        self._next_id += 1
        return GroupRow(self._next_id - 1, stream, name, position, has_events=False, has_replays=False)

    async def register(self, registration: Registration, streams: Sequence[str]) -> list[GroupLedger]:
        """Write a registration down, and a copy of each of these streams; their ledgers, once that is on disk."""
        rows = [self._row(stream, registration.name, registration.since_seq) for stream in streams]
        now = self.clock.wall_us()

        def job(connection: apsw.Connection) -> None:
            connection.execute("INSERT INTO group_registrations VALUES (?, ?, ?, ?)", (*registration, now))
            connection.execute(_CREATED, (_json([list(row) for row in rows]),))

        await self._journal.append((), job)
        return [GroupLedger(self, row) for row in rows]

    async def unregister(self, pattern: str, name: str, streams: Sequence[str]) -> None:
        """Forget a registration, and the group's copies of these streams with all that they know."""
        while self._saving is not None:
            await asyncio.wait([self._saving])
        # What is not on disk yet is not to get there behind this.
        gone = [row for row in self._new if row.name == name and row.stream in streams]
        self._new = [row for row in self._new if row not in gone]

        def job(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM group_registrations WHERE pattern = ? AND name = ?", (pattern, name))
            connection.execute(_FORGOTTEN, (name, _json(streams)))

        try:
            await self._journal.append((), job)
        except BaseException:
            self._new += gone
            raise

    # Writing outcomes.

    def touch(self, ledger: GroupLedger) -> None:
        """A group has something to say."""
        self._touched[ledger] = None
        self._save_in(SAVE_SECONDS)

    def _save_in(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._save)

    def _save(self) -> None:
        """Write what there is; one write at a time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._saving is not None or not (self._new or self._touched):
            return
        self._saving = self._loop.create_future()
        new, self._new = self._new, []
        saves = [ledger.take() for ledger in self._touched]
        self._touched = {}

        def done(outcome: Receipts | CourierError | Exception) -> None:
            saving, self._saving = self._saving, None
            if isinstance(outcome, Receipts):
                for save in saves:
                    save.ledger.written()
                if self._new:  # a copy of a stream must be on disk before what becomes of its events is
                    self._save()
                elif self._touched:
                    self._save_in(SAVE_SECONDS)
            else:
                self._failures += 1
                log.warning("how far the groups have come could not be written: %s", outcome)
                self._new[:0] = new
                for save in saves:
                    save.ledger.give_back(save)
                    self._touched[save.ledger] = None
                self._save_in(RETRY_SECONDS)
            if saving is not None:
                saving.set_result(None)

        try:
            self._journal.submit(Submission((), done, _writing(new, saves)))
        except CourierError as error:
            done(error)

    async def close(self) -> None:
        """Write what there is, and no more. What cannot be written now is delivered again after a restart."""
        failures = self._failures
        while (self._saving is not None or self._new or self._touched) and self._failures == failures:
            self._save()
            if self._saving is not None:
                await asyncio.wait([self._saving])
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _writing(new: Sequence[GroupRow], saves: Sequence[Save]) -> Job:
    """One write: the statements are the same for one group or a thousand."""
    given: list[Any] = []
    taken: list[Any] = []
    for save in saves:
        rows, passed = save.ledger.rows_of(save)
        given += rows
        taken += passed
    moved = [[save.ledger.id, save.before, save.position] for save in saves if save.position > save.before]

    def job(connection: apsw.Connection) -> None:
        for sql, values in (
            (_CREATED, [list(row) for row in new]),
            (_ROWS_TAKEN, taken),
            (_ROWS_GIVEN, given),
            (_MOVED, moved),
            (_ROWS_PASSED, moved),
        ):
            if values:
                connection.execute(sql, (_json(values),))

    return job

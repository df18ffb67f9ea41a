"""Retention: finished events give up their contents, by age and by the size of the file.

A row is emptied, never deleted: its identity stays, so that a late duplicate is still recognised, and so
do its receipt and its hash. Only processed rows are emptied; what waits or died keeps its contents, and so does
what waits or died for a consumer group. What was put off is another matter: a row that has fired has its event in
the ledger, so it is deleted when it is as old, and so is one that was cancelled.

A sweep walks the ledger in order of sequence, in slices: a reader finds what may go, and the writer is
given just those rows, inside an ordinary group commit. Where everything is empty already is remembered in
the file, so that no sweep starts from the beginning again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

import apsw

from broker.clock import Clock
from broker.config import Retention as RetentionConfig
from broker.journal import deferral_retention, schema
from broker.journal.reader import ReaderPool
from broker.limits import SEQ_MAX

log = logging.getLogger(__name__)

SLICE_ROWS = 1_000
"""How many rows one slice looks at."""

SWEEP_EVERY_SECONDS = 60.0
PAUSE_SECONDS = 0.05
"""Between two slices, so that events go first."""

EMPTY_UP_TO = "retention.empty_up_to"
"""The mark below which every row is empty."""


class Slice(NamedTuple):
    """What a reader found in one slice of the ledger."""

    last_seq: int
    """Where the slice ends; 0 behind the end of the ledger."""
    expired: list[int]
    all_empty: bool
    """Whether nothing of the slice has contents, once the expired ones are emptied."""


_SLICE = """
SELECT seq, state, state_changed_at, envelope IS NULL, stream FROM ledger WHERE seq > ?1 AND seq <= ?3
ORDER BY seq LIMIT ?2
"""

_KEPT = """
SELECT seq FROM group_events INDEXED BY group_events_kept
WHERE state <> 1 AND seq > ?1
  AND seq <= (SELECT coalesce(max(seq), 0) FROM (SELECT seq FROM ledger WHERE seq > ?1 ORDER BY seq LIMIT ?2))
"""


def find(connection: apsw.Connection, after_seq: int, changed_before: int, up_to_seq: int = SEQ_MAX) -> Slice:
    """Look at the next slice: which rows were finished before a time and still have their contents?"""
    last_seq, expired, all_empty = 0, [], True
    # Looked up before the rows: a position only grows, so what it lets go may go.
    positions = dict(connection.execute("SELECT stream, min(position) FROM group_streams GROUP BY stream"))
    kept = {seq for (seq,) in connection.execute(_KEPT, (after_seq, SLICE_ROWS))}
    for seq, state, changed_at, is_empty, stream in connection.execute(_SLICE, (after_seq, SLICE_ROWS, up_to_seq)):
        last_seq = seq
        if is_empty:
            continue
        is_wanted = seq in kept or seq > positions.get(stream, seq)
        if state == schema.STATE_PROCESSED and changed_at < changed_before and not is_wanted:
            expired.append(seq)
        else:
            all_empty = False
    return Slice(last_seq, expired, all_empty)


def used_bytes(connection: apsw.Connection) -> int:
    """How much of the database file is in use."""
    page_bytes, pages, unused = (connection.pragma(name) for name in ("page_size", "page_count", "freelist_count"))
    size: int = page_bytes * (pages - unused)
    return size


def empty_up_to(connection: apsw.Connection) -> int:
    """Up to which sequence everything is empty."""
    mark: int | None = connection.execute("SELECT value FROM marks WHERE name = ?", (EMPTY_UP_TO,)).get
    return mark or 0


class Executor(Protocol):
    """What is needed of the journal."""

    readers: ReaderPool

    async def execute(self, job: Callable[[apsw.Connection], Any]) -> Any:
        """Run a job on the write connection."""


class Retention:
    """Sweeps the ledger now and then. `sweep` may also be called by itself."""

    def __init__(
        self, journal: Executor, config: RetentionConfig, clock: Clock, up_to_seq: Callable[[], int] = lambda: SEQ_MAX
    ) -> None:
        self._journal = journal
        self._config = config
        self._clock = clock
        self._up_to_seq = up_to_seq
        """Up to where others have what they need of the events: no further is anything emptied."""
        self.emptied = 0
        """How many rows were emptied since the start."""

    @property
    def active(self) -> bool:
        """Whether there is anything to keep to."""
        return self._config.max_age_seconds is not None or self._config.max_bytes is not None

    async def run(self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Sweep for ever."""
        while self.active:
            try:
                await self.sweep(pause)
            except Exception:
                log.exception("a retention sweep failed; the next one tries again")
            await pause(SWEEP_EVERY_SECONDS)

    async def sweep(self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> int:
        """One pass over what was put off and over the ledger; how many rows of the ledger were emptied."""
        await self._forget_settled(pause)
        before, after_seq = self.emptied, await self._journal.readers.run(empty_up_to)
        contiguous = True
        while True:
            changed_before, up_to_seq = await self._changed_before(), self._up_to_seq()
            found: Slice = await self._journal.readers.run(find, after_seq, changed_before, up_to_seq)
            if found.last_seq == 0:
                return self.emptied - before
            contiguous = contiguous and found.all_empty
            if found.expired or contiguous:
                await self._journal.execute(_emptier(found, moves_mark=contiguous))
                self.emptied += len(found.expired)
            after_seq = found.last_seq
            await pause(PAUSE_SECONDS)

    async def _forget_settled(self, pause: Callable[[float], Awaitable[None]]) -> None:
        """Delete what was put off and has fired or was cancelled."""
        while True:
            before = await self._changed_before()
            settled: list[int] = await self._journal.readers.run(deferral_retention.find, before, SLICE_ROWS)
            if not settled:
                return
            await self._journal.execute(deferral_retention.forgetting(settled))
            await pause(PAUSE_SECONDS)

    async def _changed_before(self) -> int:
        """Rows finished before this time may go: all of them while the file is too large, else the old ones."""
        now = self._clock.wall_us()
        bytes_max = self._config.max_bytes
        if bytes_max is not None and await self._journal.readers.run(used_bytes) > bytes_max:
            return now + 1
        if self._config.max_age_seconds is None:
            return 0
        return now - self._config.max_age_seconds * 1_000_000


def _emptier(found: Slice, *, moves_mark: bool) -> Callable[[apsw.Connection], None]:
    def empty(connection: apsw.Connection) -> None:
        connection.executemany(
            "UPDATE ledger SET envelope = NULL WHERE seq = ? AND state = 1", [(seq,) for seq in found.expired]
        )
        if moves_mark:
            connection.execute(
                "INSERT INTO marks (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
                (EMPTY_UP_TO, found.last_seq),
            )

    return empty

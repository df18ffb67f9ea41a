"""The figures of the journal. What takes a query is asked for every few seconds at most, on a reader."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from broker.clock import Clock
from broker.journal.figures import Figures, figures
from broker.journal.journal import Journal
from broker.journal.retention import Retention
from broker.ops.metrics import Family, histogram, metric, value, values

log = logging.getLogger(__name__)

ASK_EVERY_MS: Final = 5_000
"""How old the answer of a query may be."""

COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_EVENTS: Final = tuple(2**power - 1 for power in range(1, 14))
"""These are bounds of the broker's own histogram, so the counts below them are exact."""

COMMIT = metric("courier_journal_commit_seconds", "histogram", "How long a group commit took, the sync included.")
BATCH = metric("courier_journal_batch_events", "histogram", "Events in a group commit that had any.")
EVENTS = metric("courier_journal_events_total", "counter", "Events that were committed, duplicates included.")
DUPLICATES = metric("courier_duplicates_total", "counter", "Events that were there already.", "durability")
CONFLICTS = metric("courier_payload_conflicts_total", "counter", "Duplicates whose payload was another.")
QUEUED = metric("courier_journal_queue_events", "gauge", "Events that wait for the writer.")
QUEUE_MAX = metric("courier_journal_queue_events_max", "gauge", "How many may wait (journal.queueMax).")
CHANGES = metric("courier_journal_queue_changes", "gauge", "Acks and dead letters that wait to be written.")
SATURATED = metric("courier_journal_saturations_total", "counter", "How often a producer found the queue full.")
RETRIES = metric("courier_journal_retries_total", "counter", "Commits that failed and were tried again.")
FULL = metric("courier_journal_disk_full_total", "counter", "Commits that found no room on the disk.")
WRITABLE = metric("courier_journal_writable", "gauge", "1 while commits succeed, else 0.")
CHECKPOINTS = metric("courier_journal_checkpoints_total", "counter", "Copies of the WAL to the database.", "thread")
PINNED = metric("courier_journal_wal_pinned", "gauge", "1 while a reader keeps the WAL from starting over.")
WAL = metric("courier_journal_wal_bytes", "gauge", "Size of the file of the write-ahead log.")
DATABASE = metric("courier_journal_database_bytes", "gauge", "Size of the file of the database.")
OLDEST = metric(
    "courier_journal_oldest_pending_age_seconds",
    "gauge",
    "Age of the oldest event that is neither processed nor dead; 0 if there is none. At most 5 seconds old.",
)
EMPTIED = metric("courier_journal_emptied_events_total", "counter", "Events that retention took the contents of.")


class JournalMetrics:
    """A collector; `refresh` asks for what takes a query."""

    def __init__(
        self,
        journal: Journal,
        retention: Retention,
        clock: Clock,
        *,
        queue_max: int,
        memory_duplicates: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._retention = retention
        self._clock = clock
        self._queue_max = queue_max
        self._found: Figures | None = None
        self._asked_at_ms = -ASK_EVERY_MS
        self._memory_duplicates = memory_duplicates

    async def refresh(self) -> None:
        """Ask, unless the last answer is young. A journal that cannot be read says nothing, and the rest is shown."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._asked_at_ms < ASK_EVERY_MS:
            return
        self._asked_at_ms = now_ms
        try:
            self._found = await self._journal.readers.run(figures, self._journal.path)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other figures are wanted all the more
            self._found = None
            log.warning("the figures of the ledger could not be read: %s", error)

    def __call__(self) -> Iterator[Family]:
        """The families."""
        health = self._journal.health
        yield histogram(COMMIT, health.commit_us, COMMIT_SECONDS, 1e-6)
        yield histogram(BATCH, health.batch_events, BATCH_EVENTS, 1)
        yield value(EVENTS, health.events)
        yield values(DUPLICATES, [("journal", health.duplicates), ("memory", self._memory_duplicates())])
        yield value(CONFLICTS, health.payload_conflicts)
        yield value(QUEUED, self._journal.queued)
        yield value(QUEUE_MAX, self._queue_max)
        yield value(CHANGES, self._journal.changes)
        yield value(SATURATED, health.saturations)
        yield value(RETRIES, health.retries)
        yield value(FULL, health.refused_full)
        yield value(WRITABLE, int(health.fatal is None and not health.critical))
        yield values(
            CHECKPOINTS, [("checkpointer", health.checkpoints_by_thread), ("writer", health.checkpoints_by_writer)]
        )
        yield value(PINNED, int(health.wal_pinned))
        yield value(EMPTIED, self._retention.emptied)
        found = self._found
        if found is not None:
            age_us = 0 if found.oldest_pending_at is None else self._clock.wall_us() - found.oldest_pending_at
            yield value(OLDEST, max(0, age_us) / 1e6)
            yield value(WAL, found.wal_bytes)
            yield value(DATABASE, found.database_bytes)

"""The writer thread: it owns the one write connection, and commits in groups.

A group forms by itself: while one batch is on its way to the disk, the next collects in the queue. A
lone event is therefore committed at once, and a burst in as few commits as the disk allows; no timer
is involved (`linger_ms` adds one for SD cards, where a commit is dear). The loop hears of a batch once,
whatever its size.

The queue is a plain list. Appending and cutting off its front are single operations under the GIL,
and each counter has one owner (`_submitted` the loop, `_taken` this thread), so that no lock is needed.
Rejected: a future for each event (1 µs each, on the loop), and `asyncio.Queue` (not for threads).
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from _fast import COMMIT_EXTENSION, CommitError, Committer
from broker.errors import ConfigError, CourierError, DiskFull, StorageFailed
from broker.journal import statements
from broker.journal.backoff import delay_before, past_budget
from broker.journal.batch import Batch
from broker.journal.effects import FAULTS_OF_ITS_OWN, Effects
from broker.journal.failures import Severity, code_of, severity
from broker.journal.health import JournalHealth
from broker.journal.statements import Change
from broker.journal.submission import Submission
from broker.limits import COMMIT_BATCH_MAX

log = logging.getLogger(__name__)

WAL_BYTES_A_COMMIT = 16 * 1024
"""What a commit adds to the WAL however small it is, roughly: a page of the table and of each index."""

WAL_BYTES_A_ROW = 200
"""What a row adds to the WAL besides its own text, roughly: index entries and its share of the pages around them."""


ROOM_LOOK_SECONDS = 1.0
"""How long the writer rests on a full disk before it looks whether there is room again."""


def _write_a_page(connection: apsw.Connection) -> None:
    """Change nothing, but need room for it: SQLite writes the page even if the number is the same."""
    connection.pragma("user_version", connection.pragma("user_version"))


def attach_committer(connection: apsw.Connection) -> Committer:
    """Open the door from `_fast` to apsw's own SQLite, and check that it is the same SQLite."""
    connection.enable_load_extension(True)
    try:
        connection.load_extension(COMMIT_EXTENSION, "courier_commit_init")
    finally:
        connection.enable_load_extension(False)
    committer = Committer(
        statements.INSERT_EVENT,
        statements.COUNT_DUPLICATE,
        statements.CHANGE_STATE,
        statements.LINK_CAUSE,
        statements.HASHED,
        statements.LATEST,
    )
    if committer.sqlite_version_number != apsw.SQLITE_VERSION_NUMBER:
        found = committer.sqlite_version_number
        committer.close()
        raise ConfigError(
            [f"the compiled module reached SQLite {found}, but apsw is {apsw.SQLITE_VERSION_NUMBER}: reinstall both"]
        )
    return committer


class Writer:
    """Takes submissions from the loop, commits them in batches, and hands each batch back.

    `on_batch` is called on the writer thread with every batch that was committed or refused;
    `on_taken` when it has taken submissions from the queue, so that there is room again.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        health: JournalHealth,
        on_batch: Callable[[Batch], None],
        on_taken: Callable[[], None],
        linger_ms: int = 0,
        after_commit: Callable[[apsw.Connection, int], None] = lambda _connection, _total_bytes: None,
        rng: random.Random | None = None,
        effects: Effects | None = None,
    ) -> None:
        self._connection = connection
        self._effects = effects or Effects()
        self._committer = attach_committer(connection)
        self._health = health
        self._on_batch = on_batch
        self._on_taken = on_taken
        self._after_commit = after_commit
        self._linger_seconds = linger_ms / 1000
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._next_seq: int = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM ledger").get
        self._queue: list[Submission] = []
        self._changes: list[Change] = []
        self._changes_due = False
        self._waiting = False
        self._submitted = 0
        self._taken = 0
        self.turns = 0
        """How often this thread has come round: for more work, or to one more attempt at a commit."""
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="courier-writer", daemon=True)

    # On the loop.

    @property
    def queued(self) -> int:
        """How many events wait to be taken into a batch."""
        return self._submitted - self._taken

    @property
    def changes(self) -> int:
        """How many state changes wait to be written."""
        return len(self._changes)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, submission: Submission) -> None:
        """Queue a submission. The caller has checked that there is room."""
        self._submitted += len(submission.events)
        self._queue.append(submission)
        if self._waiting:
            self._wake.put(None)

    def change_states(self, changes: Sequence[Change]) -> None:
        """Add state changes to the next batch; they wait for one until `flush_changes`."""
        self._changes.extend(changes)

    def flush_changes(self) -> None:
        """Commit the state changes that wait, even if no event comes along."""
        self._changes_due = True
        if self._waiting:
            self._wake.put(None)

    def nudge(self) -> None:
        """Make a writer that waits for work come round once."""
        if self._waiting:
            self._wake.put(None)

    def stop(self) -> None:
        """Commit what is queued, then end the thread and close the connection. Blocks until that is done."""
        self._changes_due = True
        self._stopping.set()
        self._wake.put(None)
        self._thread.join()

    # On the writer thread.

    def _run(self) -> None:
        try:
            while self._next_round():
                pass
        finally:
            self._committer.close()
            self._connection.close()

    def _next_round(self) -> bool:
        """Wait for work and commit it; False when there is none left and the writer is to stop."""
        self.turns += 1
        if not self._has_work():
            # The loop looks at `_waiting` after it has queued; this thread looks at the queue after it
            # has said that it waits. So one of the two sees the other. A wake-up too many does no harm.
            self._waiting = True
            if not self._has_work():
                if self._stopping.is_set():
                    return False
                self._sleep()
            self._waiting = False
        self._linger()
        batch = self._take()
        if batch.submissions or batch.changes:
            self._settle(batch)
        return True

    def _sleep(self) -> None:
        """Wait for a wake-up; on a full disk, only until it is time to see whether there is room again."""
        try:
            self._wake.get(timeout=ROOM_LOOK_SECONDS if self._health.full else None)
        except Empty:
            # Else a broker that nobody sends to, because it says that it is not ready, would never be ready again.
            if self._changes:
                self._changes_due = True
            else:
                self._settle(Batch([Submission((), lambda _outcome: None, _write_a_page)], []))

    def _has_work(self) -> bool:
        return bool(self._queue) or (self._changes_due and bool(self._changes))

    def _linger(self) -> None:
        """Let more events join the batch, if the operator asked for that."""
        if not self._linger_seconds or not self._queue:
            return
        self._waiting = True
        self._wait_for_more()
        self._waiting = False

    def _wait_for_more(self) -> None:
        deadline = time.monotonic() + self._linger_seconds
        while not self._stopping.is_set() and self.queued < COMMIT_BATCH_MAX:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            try:
                self._wake.get(timeout=remaining)
            except Empty:
                return

    def _take(self) -> Batch:
        """Cut whole submissions off the front of the queue, up to the bound of a batch."""
        count = events = 0
        for submission in self._queue:
            count += 1
            events += len(submission.events)
            if events >= COMMIT_BATCH_MAX:
                break
        taken = self._queue[:count]
        del self._queue[:count]
        changes = self._changes[:COMMIT_BATCH_MAX]
        del self._changes[: len(changes)]
        self._changes_due = self._changes_due and bool(self._changes)
        self._taken += events
        if count:
            self._on_taken()
        return Batch(taken, changes)

    def _settle(self, batch: Batch) -> None:
        """Commit a batch, trying again as long as that can help, and hand it back."""
        attempt = 1
        while not self._try(batch, attempt):
            attempt += 1
            if self._stopping.wait(delay_before(attempt, self._rng)) and past_budget(attempt):
                batch.error = StorageFailed("the broker stopped before the journal could be written; send it again")
                break
        self._on_batch(batch)
        if batch.written is not None:
            rows = len(batch.events) + len(batch.changes)
            self._tend_wal(batch.written.total_bytes + WAL_BYTES_A_ROW * rows + WAL_BYTES_A_COMMIT)

    def _tend_wal(self, bytes_written: int) -> None:
        try:
            self._after_commit(self._connection, bytes_written)
        except apsw.Error as error:
            if severity(code_of(error)) is Severity.FATAL:
                self._health.failed(f"the WAL cannot be checkpointed: {error}")

    def _try(self, batch: Batch, attempt: int) -> bool:
        """One attempt; True when the batch is settled, one way or the other."""
        self.turns += 1
        if self._health.fatal is not None:
            batch.error = StorageFailed(self._health.fatal)
            return True
        started = time.perf_counter()
        try:
            self._commit(batch)
        except CommitError as error:
            return self._failed(batch, error.code, error, attempt)
        except apsw.Error as error:
            self._committer.rollback()
            return self._failed(batch, code_of(error), error, attempt)
        except Exception as error:
            self._committer.rollback()
            log.exception("the writer met something that it does not know")
            return self._give_up(batch, error)
        self._health.committed(len(batch.events), time.perf_counter() - started)
        return True

    def _commit(self, batch: Batch) -> None:
        stays_open = batch.stays_open
        written = self._committer.write(batch.events, batch.changes, self._next_seq, not stays_open, batch.causes())
        if stays_open:
            batch.take_out(written, self._effects.run(self._connection, batch.with_effects(written)))
            batch.job_results = self._run_jobs(batch)
            self._committer.commit()
        self._next_seq = written.next_seq
        batch.written = written

    def _run_jobs(self, batch: Batch) -> dict[int, Any]:
        results: dict[int, Any] = {}
        for index, submission in enumerate(batch.submissions):
            if submission.job is None:
                continue
            try:
                with self._connection:
                    results[index] = submission.job(self._connection)
            except apsw.Error as error:
                if code_of(error) & 0xFF not in FAULTS_OF_ITS_OWN:
                    raise
                results[index] = error
            except Exception as error:  # noqa: BLE001 - the job's own; whoever submitted it gets it back
                results[index] = error
        return results

    def _failed(self, batch: Batch, code: int, error: Exception, attempt: int) -> bool:
        match severity(code):
            case Severity.TRANSIENT:
                self._health.retrying(str(error), critical=past_budget(attempt + 1))
                log.log(
                    logging.ERROR if past_budget(attempt + 1) else logging.WARNING,
                    "the journal could not commit (attempt %d), trying again: %s",
                    attempt,
                    error,
                )
                return False
            case Severity.FULL:
                self._health.disk_full(str(error))
                self._refuse(batch, DiskFull("no room on the disk of the data directory; free some, and send it again"))
                return True
            case Severity.FATAL:
                return self._give_up(batch, error)

    def _give_up(self, batch: Batch, error: Exception) -> bool:
        self._health.failed(f"the journal cannot be written any more: {error}")
        self._refuse(batch, StorageFailed(self._health.fatal or str(error)))
        return True

    def _refuse(self, batch: Batch, error: CourierError) -> None:
        batch.error = error
        self._changes[:0] = batch.changes  # a state change is not lost with the events beside it

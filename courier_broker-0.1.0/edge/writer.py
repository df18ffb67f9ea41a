"""The thread that owns the outbox file: it runs jobs, and commits those that change something together.

While one commit is on its way to the card, the next jobs collect; when it returns, all of them share the next one. A
lone put is therefore committed at once, fifty callers share one sync, and there is no timer to tune. Jobs that only
read run after the commit, so that they never see what is not on disk.

A job is settled on the loop it came from, once a batch.
"""

import asyncio
import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import apsw

from edge.errors import DiskFull, EdgeError, OutboxClosed, OutboxFailed, OutboxUnavailable
from edge.limits import COMMIT_JOBS_MAX
from edge.reserve import Reserve
from edge.storage import Severity, note_failure, severity
from edge.store import Lane, Store

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 5
RETRY_BASE_SECONDS: Final = 0.1
RETRY_CAP_SECONDS: Final = 5.0


@dataclass(slots=True, eq=False)
class Job:
    """Something to do with the store, and the future of whoever waits for it."""

    run: Callable[[Store], Any]
    future: asyncio.Future[Any]
    changes: bool
    size: int = 0
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Runs jobs in the order in which they came. `settled` is called on the loop after each batch."""

    def __init__(self, store: Store, reserve: Reserve, settled: Callable[[list[Job], dict[str, Lane]], None]) -> None:
        self._store = store
        self._reserve = reserve
        self._settled = settled
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._ended = self._loop.create_future()
        self._stopping = threading.Event()
        self.failure: str | None = None
        """Why nothing is committed any more."""
        self._rng = random.Random()  # noqa: S311 - jitter, not a secret
        self._thread = threading.Thread(target=self._run, name="courier-outbox", daemon=True)
        self._thread.start()

    # On the loop.

    def submit(self, job: Job) -> None:
        """Queue a job. The caller has checked that there is room."""
        self._queue.put(job)

    async def stop(self) -> None:
        """Do what is queued, then end the thread and close the file."""
        self._stopping.set()
        self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    # On the thread.

    def _run(self) -> None:
        try:
            while self._round():
                pass
            if self.failure is None:
                self._last_words()
        finally:
            self._store.connection.close()
            self._tell(self._ended.set_result, None)

    def _round(self) -> bool:
        job = self._queue.get()
        jobs: list[Job] = []
        while job is not None:
            jobs.append(job)
            if len(jobs) >= COMMIT_JOBS_MAX or self._queue.empty():
                break
            job = self._queue.get()
        changing = [each for each in jobs if each.changes]
        if changing:
            self._commit_what_fits(changing)
            self._hand_back(changing)
        reading = [each for each in jobs if not each.changes]
        if reading:
            for each in reading:
                self._read(each)
            self._hand_back(reading)
        return job is not None

    def _commit_what_fits(self, jobs: list[Job]) -> None:
        """Commit jobs; on a full disk, those alone that need no more room than is kept for them."""
        if self._reserve.held or self._make_room():
            self._commit(jobs)
            if not isinstance(jobs[0].error, DiskFull):
                return
            self._reserve.release()
        growing = [job for job in jobs if job.size]
        _refuse(growing, DiskFull("no room on the disk of the outbox; free some, and put the event again"))
        shrinking = [job for job in jobs if not job.size]
        self._checkpoint()
        if shrinking and self.failure is None:
            self._commit(shrinking)
            self._make_room()

    def _make_room(self) -> bool:
        """Give pages that are free back to the disk, and keep room again; whether there is."""
        try:
            if self.failure is None:
                self._store.connection.execute("PRAGMA incremental_vacuum").fetchall()
                self._checkpoint()
        except apsw.Error as error:
            self._refusal(error)
        return self._reserve.hold()

    def _checkpoint(self) -> None:
        """Empty the WAL into the file."""
        try:
            self._store.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            self._refusal(error)

    def _commit(self, jobs: list[Job]) -> None:
        """Run jobs in one transaction, trying again as long as that can help."""
        last = ""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            if self.failure is not None:
                return _refuse(jobs, OutboxFailed(self.failure))
            try:
                return self._try(jobs)
            except apsw.Error as error:
                self._roll_back()
                refusal = self._refusal(error)
                if refusal is not None:
                    return _refuse(jobs, refusal)
                log.warning("the outbox could not be written (attempt %d of %d): %s", attempt, ATTEMPTS_MAX, error)
                last = str(error)
            except Exception as error:
                self._roll_back()
                log.exception("the outbox met something that it does not know")
                self.failure = f"the outbox met something that it does not know: {error!r}"
                return _refuse(jobs, OutboxFailed(self.failure))
            self._stopping.wait(self._rng.uniform(0.0, min(RETRY_CAP_SECONDS, RETRY_BASE_SECONDS * 2**attempt)))
        return _refuse(jobs, OutboxUnavailable(f"the outbox could not be written: {last}; try again"))

    def _try(self, jobs: list[Job]) -> None:
        self._store.connection.execute("BEGIN IMMEDIATE")
        for job in jobs:
            job.result, job.error = None, None
            try:
                job.result = job.run(self._store)
            except EdgeError as error:  # the job's own: it has changed nothing
                job.error = error
        self._store.save()
        self._store.connection.execute("COMMIT")

    def _roll_back(self) -> None:
        try:
            if self._store.connection.in_transaction:
                self._store.connection.execute("ROLLBACK")
            self._store.reload()
        except apsw.Error as error:
            self.failure = f"the outbox cannot be read any more: {error}"

    def _refusal(self, error: apsw.Error) -> EdgeError | None:
        """What to tell the callers; None when another attempt may help."""
        match severity(error):
            case Severity.TRANSIENT:
                return None
            case Severity.FULL:
                return DiskFull("no room on the disk of the outbox; free some, and try again")
            case Severity.FATAL:
                self.failure = f"the outbox cannot be written any more: {error}"
                note_failure(Path(self._store.connection.filename))
                log.critical(self.failure)
                return OutboxFailed(self.failure)

    def _read(self, job: Job) -> None:
        try:
            job.result = job.run(self._store)
        except apsw.Error as error:
            job.error = self._refusal(error) or OutboxUnavailable(f"the outbox could not be read: {error}; try again")
        except Exception as error:  # noqa: BLE001 - whoever submitted it gets it back
            job.error = error

    def _last_words(self) -> None:
        """Note the time, for the clock of the next run. It does not matter if that fails."""
        try:
            with self._store.connection:
                self._store.note_time()
                self._store.save()
        except apsw.Error as error:
            log.warning("the outbox could not note the time: %s", error)

    def _hand_back(self, jobs: list[Job]) -> None:
        self._tell(self._settled, jobs, self._store.counts())

    def _tell(self, *call: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(*call)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.debug("the loop of the outbox is gone")


def _refuse(jobs: list[Job], error: EdgeError) -> None:
    for job in jobs:
        job.result, job.error = None, error


def closed() -> OutboxClosed:
    """What a call on a closed outbox gets."""
    return OutboxClosed("the outbox is closed; open it, and put the event again")

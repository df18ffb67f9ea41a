"""Keeps the WAL short without holding up the writer.

Copying the WAL into the database is slow work with two syncs in it. A thread with a connection of its
own does it in passing (SQLite's PASSIVE mode waits for nobody and holds up nobody). Under a constant
load that thread never quite catches up, and only a WAL that is copied to its end can start over; so,
past `wal_bytes_max`, the writer does the small rest itself between two batches. If even then the WAL
does not start over, a reader is holding an old snapshot: if it stays, that is worth an alarm, not a wait.
"""

import logging
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import apsw

from broker.journal.failures import Severity, code_of, severity
from broker.journal.health import JournalHealth
from broker.limits import BUSY_TIMEOUT_MS

log = logging.getLogger(__name__)

LOOK_EVERY_BYTES: Final = 1024 * 1024
"""How much is written between two looks at the WAL."""

COPY_FROM_BYTES: Final = 4 * 1024 * 1024
"""From how much that is not copied yet the thread is woken."""

ALARM_FROM_BOUNDS: Final = 1.5
"""From how many times its bound a WAL that cannot start over is worth an alarm."""


class Checkpointer:
    """`after_commit` is called on the writer thread; everything else happens on the checkpointer's own."""

    def __init__(self, path: Path, *, wal_bytes_max: int, health: JournalHealth, vfs: str | None = None) -> None:
        self._path = path
        self._vfs = vfs
        self._health = health
        self._wal_bytes_max = wal_bytes_max
        self._bytes_since_look = 0
        self._page_bytes = 0
        self._work: SimpleQueue[bool] = SimpleQueue()
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="courier-checkpointer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the copy that it may be at."""
        self._work.put(False)
        self._thread.join()

    def after_commit(self, connection: apsw.Connection, bytes_written: int) -> None:
        """Look at the WAL now and then, and see to it that it gets copied."""
        self._bytes_since_look += bytes_written
        if self._bytes_since_look < LOOK_EVERY_BYTES:
            return
        self._bytes_since_look = 0
        page_bytes = self._page_bytes = self._page_bytes or connection.pragma("page_size")
        frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        if frames * page_bytes > self._wal_bytes_max:
            frames, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._health.checkpoints_by_writer += 1
            self._watch_for_pin(pinned=copied < frames, wal_bytes=frames * page_bytes)
        elif (frames - copied) * page_bytes > COPY_FROM_BYTES and not self._busy:
            self._busy = True
            self._work.put(True)

    def _watch_for_pin(self, *, pinned: bool, wal_bytes: int) -> None:
        """Raise the alarm for a reader that stays; one that is passing lets go before the WAL is far past its bound."""
        if pinned and wal_bytes < ALARM_FROM_BOUNDS * self._wal_bytes_max:
            return
        if pinned and not self._health.wal_pinned:
            log.warning(
                "the WAL has %d MiB, past its bound of %d, because a reader holds an old snapshot; find and end it",
                wal_bytes >> 20,
                self._wal_bytes_max >> 20,
            )
        self._health.wal_pinned = pinned

    def _run(self) -> None:
        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # A connection that has never read does not know that there is a WAL, and copies nothing.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            while self._work.get():
                self._copy(connection)
                self._busy = False
        finally:
            connection.close()

    def _copy(self, connection: apsw.Connection) -> None:
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._health.checkpoints_by_thread += 1
        except apsw.Error as error:
            if severity(code_of(error)) is Severity.FATAL:
                self._health.failed(f"the WAL cannot be checkpointed: {error}")
            else:
                log.warning("the WAL could not be checkpointed this time: %s", error)

"""Queries on read-only connections, so that a slow one holds up nobody.

Every envelope that is read back is compared with its hash. One that no longer matches is reported
as `Corrupt` and never delivered.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from broker.contracts.origin import Origin, origin_of
from broker.journal.connection import open_reader
from broker.limits import PAGE_BYTES_MAX

T = TypeVar("T")


class StoredEvent(NamedTuple):
    """An event as the ledger has it, its bytes checked against their hash."""

    seq: int
    source_event_id: str
    envelope: bytes
    received_at: int
    partition_key: str | None
    attempts: int
    origin: Origin | None


class Page(NamedTuple):
    """A run of pending events of one stream, and what is left of it behind them."""

    events: list[StoredEvent]
    corrupt: list[int]
    """Sequences whose bytes no longer match their hash."""
    last_seq: int
    """Up to here, everything was read."""


class Backlog(NamedTuple):
    """What a restart finds to be done (002, boot checklist)."""

    pending: int
    dead_letters: int
    oldest_pending_at: int | None
    last_seq: int


STORED = (
    "seq, source_event_id, envelope, received_at, partition_key, process_attempts, payload_sha256, "
    "contract, source_system, correlation_id"
)
"""What `checked` reads of each row, in its order."""

_PENDING_PAGE = f"""
SELECT {STORED}
FROM ledger INDEXED BY ledger_pending
WHERE state = 0 AND stream = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3
"""  # noqa: S608 - column names of this file

_PENDING_STREAMS = """
SELECT stream, count(*), max(seq) FROM ledger INDEXED BY ledger_pending WHERE state = 0 GROUP BY stream
"""

_RECEIPT = """
SELECT seq, contract, stream, type, process_state, process_attempts, process_error, redriven_as, received_at,
  ingest_last_seen_at, ingest_attempt_count, duplicate_count, payload_conflict_count, processed_at,
  lower(hex(payload_sha256)) AS payload_sha256, envelope IS NULL AS emptied, notes
FROM ledger WHERE source_system = ?1 AND source_event_id = ?2
"""

_BUSINESS_ORDER = f"""
SELECT {STORED} FROM ledger
WHERE source_system = ?1 AND envelope IS NOT NULL
ORDER BY source_sequence IS NULL, source_sequence, source_emitted_at IS NULL, source_emitted_at, seq
LIMIT ?2
"""  # noqa: S608 - likewise


def matches(envelope: bytes, payload_sha256: bytes) -> bool:
    """Whether stored bytes are still what was received."""
    return hashlib.sha256(envelope).digest() == payload_sha256


def checked(rows: Iterator[tuple[Any, ...]]) -> tuple[list[StoredEvent], list[int]]:
    """Rows as events, and the sequences of those whose bytes no longer match their hash."""
    events, corrupt = [], []
    for seq, source_event_id, envelope, received_at, partition_key, attempts, payload_sha256, *origin in rows:
        if envelope is not None and matches(envelope, payload_sha256):
            events.append(
                StoredEvent(seq, source_event_id, envelope, received_at, partition_key, attempts, origin_of(*origin))
            )
        else:
            corrupt.append(seq)
    return events, corrupt


def taken(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of one page, whose third value is an envelope: all of them, or as many as a page has bytes for."""
    page: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        page.append(row)
        size += len(row[2] or b"")
        if size >= PAGE_BYTES_MAX:
            break
    return page


def pending_page(connection: apsw.Connection, stream: str, after_seq: int, limit: int) -> Page:
    """The next pending events of a stream, in order: at most `limit`, and no more than a page has bytes for."""
    rows = taken(connection.execute(_PENDING_PAGE, (stream, after_seq, limit)))
    events, corrupt = checked(iter(rows))
    return Page(events, corrupt, rows[-1][0] if rows else after_seq)


def pending_streams(connection: apsw.Connection) -> list[tuple[str, int, int]]:
    """Every stream with pending events, how many, and the newest of them; from the index alone."""
    rows: list[Any] = connection.execute(_PENDING_STREAMS).fetchall()
    return rows


def backlog(connection: apsw.Connection) -> Backlog:
    """Count the unfinished work, from the indexes alone but for the oldest event."""
    pending = connection.execute("SELECT count(*) FROM ledger INDEXED BY ledger_pending WHERE state = 0").get
    dead = connection.execute("SELECT count(*) FROM ledger INDEXED BY ledger_dead_letters WHERE state = 2").get
    first = connection.execute("SELECT min(seq) FROM ledger INDEXED BY ledger_pending WHERE state = 0").get
    oldest = connection.execute("SELECT received_at FROM ledger WHERE seq = ?", (first,)).get
    last = connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").get
    return Backlog(pending, dead, oldest, last)


def checkpoints(connection: apsw.Connection) -> dict[str, str]:
    """How far each source had got, by its own cursor."""
    rows: list[Any] = connection.execute("SELECT source_system, cursor FROM source_checkpoints").fetchall()
    return dict(rows)


def receipt(connection: apsw.Connection, source_system: str, source_event_id: str) -> dict[str, Any] | None:
    """Everything that the ledger knows about one identity, without its envelope."""
    cursor = connection.execute(_RECEIPT, (source_system, source_event_id))
    row = cursor.fetchone()
    return None if row is None else dict(zip(_RECEIPT_COLUMNS, row, strict=True))


_RECEIPT_COLUMNS = (
    "seq", "contract", "stream", "type", "process_state", "process_attempts", "process_error", "redriven_as",
    "received_at", "ingest_last_seen_at", "ingest_attempt_count", "duplicate_count", "payload_conflict_count",
    "processed_at", "payload_sha256", "emptied", "notes",
)  # fmt: skip


def in_business_order(connection: apsw.Connection, source_system: str, limit: int) -> list[StoredEvent]:
    """Events of one source by sequence, then by the time they were emitted, then by arrival (002)."""
    return checked(connection.execute(_BUSINESS_ORDER, (source_system, limit)))[0]


class ReaderPool:
    """A few threads, each with a read-only connection of its own."""

    def __init__(self, path: Path, *, readers: int, vfs: str | None = None) -> None:
        self._path = path
        self._vfs = vfs
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._threads = ThreadPoolExecutor(max_workers=readers, thread_name_prefix="courier-reader")

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = open_reader(self._path, vfs=self._vfs)
            self._connections.append(connection)
        return connection

    async def run(self, query: Callable[..., T], *args: Any) -> T:
        """Run `query(connection, *args)` on a reader thread."""

        def call() -> T:
            return query(self._connection(), *args)

        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        """Wait for the queries under way, then close the connections."""
        self._threads.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

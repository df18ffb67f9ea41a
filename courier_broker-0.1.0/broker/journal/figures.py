"""Figures about the ledger that take a query, for the metrics."""

from pathlib import Path
from typing import NamedTuple

import apsw

# From stream to stream along the index, and not through it: it takes as long as there are streams with pending
# events, however many events those have.
_OLDEST_PENDING = """
WITH RECURSIVE streams (stream) AS (
  SELECT min(stream) FROM ledger INDEXED BY ledger_pending WHERE state = 0
  UNION ALL
  SELECT (SELECT min(stream) FROM ledger INDEXED BY ledger_pending WHERE state = 0 AND stream > streams.stream)
  FROM streams WHERE stream IS NOT NULL
)
SELECT received_at FROM ledger WHERE seq = (
  SELECT min((SELECT min(seq) FROM ledger INDEXED BY ledger_pending WHERE state = 0 AND stream = streams.stream))
  FROM streams WHERE stream IS NOT NULL
)
"""


class Figures(NamedTuple):
    """What was found."""

    oldest_pending_at: int | None
    """When the oldest pending event was received, in microseconds since 1970; None if there is none."""
    database_bytes: int
    wal_bytes: int


def oldest_pending_at(connection: apsw.Connection) -> int | None:
    """When the oldest pending event was received; from the index alone, but for that one event."""
    found: int | None = connection.execute(_OLDEST_PENDING).get
    return found


def figures(connection: apsw.Connection, path: Path) -> Figures:
    """All of them. The sizes are those of the files."""
    return Figures(oldest_pending_at(connection), _size(path), _size(path.with_name(f"{path.name}-wal")))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # there is no WAL before the first write
        return 0

"""What recurs, as the journal keeps it: a name, its definition in JSON, and its next run among the deferrals."""

from collections.abc import Callable
from typing import Any

import apsw

from broker.journal.deferrals import Deferral, put_off_run

_LAST = "SELECT max(fire_at) FROM deferrals WHERE recurrence = ? AND status <> 'scheduled'"
_NO_NEXT = "DELETE FROM deferrals INDEXED BY deferrals_next_run WHERE recurrence = ? AND status = 'scheduled'"
_PUT = """
INSERT INTO recurrences (name, definition, updated_at) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET definition = ?2, updated_at = ?3
"""
_LIST = """
SELECT name, definition,
  (SELECT fire_at FROM deferrals INDEXED BY deferrals_next_run WHERE recurrence = name AND status = 'scheduled'),
  (SELECT max(fire_at) FROM deferrals WHERE recurrence = name AND status = 'fired'),
  (SELECT error FROM deferrals INDEXED BY deferrals_next_run WHERE recurrence = name AND status = 'scheduled')
FROM recurrences ORDER BY name
"""


def load(connection: apsw.Connection) -> list[tuple[str, bytes]]:
    """Every definition, by its name."""
    rows: list[Any] = connection.execute("SELECT name, definition FROM recurrences ORDER BY name").fetchall()
    return [(name, definition.encode()) for name, definition in rows]


def runs(connection: apsw.Connection) -> dict[str, tuple[int | None, int | None, str | None]]:
    """When each runs next and ran last, and why the next one could not yet."""
    rows: list[Any] = connection.execute(_LIST).fetchall()
    return {name: (next_at, last_at, error) for name, _definition, next_at, last_at, error in rows}


def put(
    connection: apsw.Connection,
    name: str,
    definition: bytes,
    first: Callable[[int | None], Deferral | None],
    now_us: int,
) -> Deferral | None:
    """Add what recurs, or replace it; its next run, which `first` makes of when the last one was."""
    connection.execute(_NO_NEXT, (name,))
    connection.execute(_PUT, (name, definition.decode(), now_us))
    last_at: int | None = connection.execute(_LAST, (name,)).get
    run = first(last_at)
    if run is not None:
        put_off_run(connection, run)
    return run


def delete(connection: apsw.Connection, name: str) -> bool:
    """Remove what recurs, with its next run; False if there is none."""
    connection.execute(_NO_NEXT, (name,))
    connection.execute("DELETE FROM recurrences WHERE name = ?", (name,))
    return connection.changes() > 0

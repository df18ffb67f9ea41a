"""Looking at what was put off."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apsw

from broker.contracts.names import pattern_matches
from broker.journal.deferrals import Status
from broker.limits import BROWSE_ROWS_MAX


class Shown(NamedTuple):
    """An event that is put off, or was, without its envelope."""

    id: int
    stream: str
    source: str
    event_id: str | None
    recurrence: str | None
    status: Status
    created_at: int
    fire_at: int
    fired_at: int | None
    seq: int | None
    attempts: int
    retry_at: int | None
    error: str | None


class Listing(NamedTuple):
    """Some of what waits, the next one first."""

    shown: list[Shown]
    following: tuple[int, int] | None
    """Behind what to go on; None at the end."""


_COLUMNS = ", ".join(Shown._fields)
_FIND = f"""
SELECT {_COLUMNS}, CASE WHEN seq IS NULL THEN envelope ELSE (SELECT envelope FROM ledger WHERE seq = deferrals.seq) END
FROM deferrals WHERE id = ?
"""  # noqa: S608 - column names of this file
_WAITING = f"""
SELECT {_COLUMNS}, due_at FROM deferrals INDEXED BY deferrals_due
WHERE status = 'scheduled' AND (due_at, id) > (?1, ?2) ORDER BY due_at, id
"""  # noqa: S608 - likewise


def find(connection: apsw.Connection, deferred_id: int) -> tuple[Shown, bytes | None] | None:
    """One of them, with its envelope; None if that was emptied by retention."""
    row: Any = connection.execute(_FIND, (deferred_id,)).fetchone()
    return None if row is None else (Shown(*row[:-1]), row[-1])


def waiting(
    connection: apsw.Connection,
    after: tuple[int, int],
    limit: int,
    pattern: str | None,
    may_see: Callable[[str], bool],
) -> Listing:
    """What waits, in the order in which it is due: at most `limit`, of so many rows as one request looks at."""
    shown: list[Shown] = []
    rows: Iterator[Any] = connection.execute(_WAITING, after)
    for looked_at, (*row, due_at) in enumerate(rows, start=1):
        found = Shown(*row)
        if (pattern is None or pattern_matches(pattern, found.stream)) and may_see(found.stream):
            shown.append(found)
        if len(shown) == limit or looked_at == BROWSE_ROWS_MAX:
            return Listing(shown, (due_at, found.id))
    return Listing(shown, None)

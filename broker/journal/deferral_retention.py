"""What retention takes of the deferrals: rows that were settled long ago, whose events are in the ledger or never were.

Of everything that recurs, the last run and the last one that was an event stay: they say when it ran.
"""

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import orjson

_LAST = "SELECT coalesce((SELECT id FROM deferrals INDEXED BY deferrals_recurring WHERE recurrence = name AND {}"
_SETTLED = f"""
SELECT id FROM deferrals INDEXED BY deferrals_settled WHERE settled_at < ?1 AND id NOT IN (
  {_LAST.format("status <> 'scheduled'")} ORDER BY fire_at DESC LIMIT 1), 0) FROM recurrences
  UNION {_LAST.format("status = 'fired'")} ORDER BY fire_at DESC LIMIT 1), 0) FROM recurrences
) ORDER BY settled_at LIMIT ?2
"""  # noqa: S608 - texts of this file
_FORGET = "DELETE FROM deferrals WHERE id IN (SELECT value FROM json_each(?))"


def find(connection: apsw.Connection, settled_before: int, limit: int) -> list[int]:
    """Some of what was settled before a time and may go, the oldest first."""
    rows: list[Any] = connection.execute(_SETTLED, (settled_before, limit)).fetchall()
    return [deferred_id for (deferred_id,) in rows]


def forgetting(ids: Sequence[int]) -> Callable[[apsw.Connection], None]:
    """The job that deletes them. What is settled stays so, so they are still what was found."""
    given = orjson.dumps(list(ids)).decode()

    def forget(connection: apsw.Connection) -> None:
        connection.execute(_FORGET, (given,))

    return forget

"""When the oldest unfinished event of a stream was received."""

from collections.abc import Sequence

import apsw

_OLDEST = """
SELECT received_at FROM ledger
WHERE seq = (SELECT min(seq) FROM ledger INDEXED BY ledger_pending WHERE stream = ? AND state = 0)
"""


def oldest_pending(connection: apsw.Connection, streams: Sequence[str]) -> dict[str, int]:
    """The time of each stream that has something unfinished: waiting, delayed or in flight. Two look-ups for each."""
    found = {stream: connection.execute(_OLDEST, (stream,)).get for stream in streams}
    return {stream: at for stream, at in found.items() if at is not None}

"""Pages of the ledger over all streams of a pattern: what a follower is shown of the past."""

import apsw

from broker.contracts.names import pattern_matches
from broker.journal.reader import matches
from broker.limits import BROWSE_BYTES_MAX, BROWSE_ROWS_MAX

# GLOB's * also passes a /, so this finds every row of the pattern and a few more; names hold nothing else that
# GLOB would take for special.
_FOLLOW = """
SELECT seq, stream, envelope, payload_sha256 FROM ledger
WHERE seq >= ?1 AND seq < ?2 AND +stream GLOB ?3 ORDER BY seq
"""

FollowedRow = tuple[int, str, bytes | None]
"""Sequence, stream and envelope; None if that was emptied, or is not what was received."""


def follow(connection: apsw.Connection, pattern: str, from_seq: int) -> tuple[list[FollowedRow], int, bool]:
    """Events of a pattern from a sequence on, up to which sequence that goes, and whether that is the end."""
    last_seq: int = connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").get
    end = min(from_seq + BROWSE_ROWS_MAX, last_seq + 1)
    found: list[FollowedRow] = []
    size = 0
    for seq, stream, envelope, digest in connection.execute(_FOLLOW, (from_seq, end, pattern)):
        if not pattern_matches(pattern, stream):
            continue
        size += len(envelope or b"")
        if found and size > BROWSE_BYTES_MAX:
            return found, seq - 1, False
        found.append((seq, stream, envelope if envelope is not None and matches(envelope, digest) else None))
    up_to = max(from_seq, end) - 1
    return found, up_to, up_to >= last_seq

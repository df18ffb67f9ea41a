"""What the ledger and the groups' own tables say about consumer groups: queries for read-only connections."""

from typing import NamedTuple

import apsw

from broker.journal.reader import Page, checked, taken
from broker.limits import BROWSE_ROWS_MAX


class Registration(NamedTuple):
    """A group, and the streams that it has a copy of: those of a pattern, or one."""

    pattern: str
    name: str
    since_seq: int
    """Where its copies begin, of streams that it has none of yet."""


class GroupRow(NamedTuple):
    """A group's copy of one stream."""

    id: int
    stream: str
    name: str
    position: int
    has_events: bool
    """Whether some of its events have a row of their own."""
    has_replays: bool
    """Whether some of them are to be delivered again."""


class DeadAndWaiting(NamedTuple):
    """What only the ledger knows of a group's copy."""

    waiting: int
    """Events behind its window."""
    dead: int


_GROUPS = """
SELECT id, stream, name, position,
  EXISTS (SELECT 1 FROM group_events WHERE group_id = id),
  EXISTS (SELECT 1 FROM group_events WHERE group_id = id AND state = 0)
FROM group_streams ORDER BY id
"""

# What was redriven is for the stream itself: a group had the event when it came, and has its own dead letters.
_PAGE = """
SELECT seq, source_event_id, envelope, received_at, partition_key, 0, payload_sha256, contract, source_system,
  correlation_id
FROM ledger
WHERE seq > ?1 AND seq <= ?2 AND +stream = ?3 AND envelope IS NOT NULL
  AND source_system NOT GLOB 'redrive:*'
  AND NOT EXISTS (SELECT 1 FROM group_events WHERE group_id = ?4 AND group_events.seq = ledger.seq)
ORDER BY seq LIMIT ?5
"""

_WAITING_AGAIN = """
SELECT seq, source_event_id, envelope, received_at, partition_key, group_events.attempts, payload_sha256, contract,
  source_system, correlation_id
FROM group_events INDEXED BY group_events_replayed JOIN ledger USING (seq)
WHERE group_id = ?1 AND group_events.state = 0 AND seq NOT IN (SELECT value FROM json_each(?2)) ORDER BY seq LIMIT ?3
"""

_WAITING_BEHIND = """
SELECT count(*) FROM ledger WHERE seq > ?1 AND +stream = ?2 AND envelope IS NOT NULL
  AND source_system NOT GLOB 'redrive:*'
  AND NOT EXISTS (SELECT 1 FROM group_events WHERE group_id = ?3 AND group_events.seq = ledger.seq)
"""


def registrations(connection: apsw.Connection) -> list[Registration]:
    """Every registration, the oldest first."""
    rows = connection.execute("SELECT pattern, name, since_seq FROM group_registrations ORDER BY created_at, pattern")
    return [Registration(*row) for row in rows]


def groups(connection: apsw.Connection) -> list[GroupRow]:
    """Every group's copy of every stream."""
    return [
        GroupRow(number, stream, name, position, bool(has_events), bool(has_replays))
        for number, stream, name, position, has_events, has_replays in connection.execute(_GROUPS)
    ]


def page(connection: apsw.Connection, group_id: int, stream: str, after_seq: int, limit: int) -> Page:
    """The next events of a stream that a group has not settled; what retention has emptied is passed over.

    It may find nothing and still be a page: it looks at a bounded number of rows, as browsing does.
    """
    last_seq: int = connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").get
    end = max(after_seq, min(after_seq + BROWSE_ROWS_MAX, last_seq))
    found = connection.execute(_PAGE, (after_seq, end, stream, group_id, limit))
    rows = taken(found)
    is_cut = len(rows) == limit or next(found, None) is not None
    events, corrupt = checked(iter(rows))
    return Page(events, corrupt, rows[-1][0] if is_cut else end)


def waiting_again(connection: apsw.Connection, group_id: int, loaded: str, limit: int) -> Page:
    """Events with a row of their own that are to be delivered again, but for those of a JSON array of sequences.

    They are dead letters that were replayed, and events that were delivered in vain before a restart. The last
    sequence is 0 when these were all.
    """
    found = connection.execute(_WAITING_AGAIN, (group_id, loaded, limit))
    rows = taken(found)
    is_cut = len(rows) == limit or next(found, None) is not None
    events, corrupt = checked(iter(rows))
    return Page(events, corrupt, rows[-1][0] if is_cut else 0)


def dead_and_waiting(connection: apsw.Connection, group_id: int, stream: str, after_seq: int | None) -> DeadAndWaiting:
    """Count what died for a group, and what waits for it behind a sequence (None: nothing does).

    Counting what waits reads the ledger from there on; only a group that lags has to have that done.
    """
    dead = connection.execute("SELECT count(*) FROM group_events WHERE group_id = ? AND state = 2", (group_id,)).get
    if after_seq is None:
        return DeadAndWaiting(0, dead)
    return DeadAndWaiting(connection.execute(_WAITING_BEHIND, (after_seq, stream, group_id)).get, dead)


def streams_of_ledger(connection: apsw.Connection) -> list[str]:
    """Every stream that ever had an event."""
    return [stream for (stream,) in connection.execute("SELECT DISTINCT stream FROM ledger")]

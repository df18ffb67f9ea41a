"""The rows of the outbox: every statement that reads or changes them.

Owned by the writer thread. A method that changes something runs inside the writer's transaction, and either does all of
it or raises before it has done any. The counts in memory follow the transaction: `saved` writes them with it, and
`reload` takes them back when it did not commit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import apsw

from edge.clock import Timeline
from edge.errors import OutboxFull
from edge.event import Event
from edge.limits import LANES_MAX, OUTBOX_BYTES_DEFAULT, OUTBOX_ROWS_DEFAULT, ROW_BYTES_OVERHEAD

DEFAULT_LANE = "default"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an outbox, or one lane of it, may hold; and whether a new event may push out the oldest of its lane."""

    rows_max: int = OUTBOX_ROWS_DEFAULT
    bytes_max: int = OUTBOX_BYTES_DEFAULT
    drop_oldest: bool = False


@dataclass(slots=True)
class Lane:
    """What one lane holds, and what became of what it held."""

    rows: int = 0
    bytes: int = 0
    rejected: int = 0
    acknowledged: int = 0
    dropped: int = 0


class Row(NamedTuple):
    """An event on its way."""

    seq: int
    event_id: str
    payload_json: bytes
    attempt_count: int
    rejected: bool
    next_attempt_at: int


class Receipt(NamedTuple):
    """The event is on disk. A duplicate was there before, and `payload_conflict` says that its bytes were others."""

    event_id: str
    duplicate: bool = False
    payload_conflict: bool = False


class Attempt(NamedTuple):
    """What became of a row that was sent and not acknowledged."""

    event_id: str
    next_attempt_at: int
    error: str
    rejected: bool = False
    attempted: bool = True


class LineState(NamedTuple):
    """What the sender remembers of its connection across a reboot."""

    failures: int
    next_attempt_at: int
    last_error: str | None


_PUT = """INSERT INTO outbox (rowid, event_id, payload_json, created_at, lane, bytes)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (event_id) DO NOTHING"""
_OLDEST = "SELECT rowid, bytes, state FROM outbox WHERE lane = ? ORDER BY rowid"
_RESCHEDULE = """UPDATE outbox SET attempt_count = attempt_count + ?, next_attempt_at = ?, last_error = ?, state = ?
WHERE event_id = ? RETURNING lane"""
_SHIFT_OUTBOX = "UPDATE outbox SET next_attempt_at = max(1, next_attempt_at + ?) WHERE next_attempt_at > 0"
_SHIFT_LINE = "UPDATE line SET next_attempt_at = max(1, next_attempt_at + ?) WHERE next_attempt_at > 0"
_CUT_OUTBOX = "UPDATE outbox SET next_attempt_at = ?1 WHERE next_attempt_at > ?1"
_CUT_LINE = "UPDATE line SET next_attempt_at = ?1 WHERE next_attempt_at > ?1"
_ROW = "SELECT rowid, event_id, payload_json, attempt_count, state = 'rejected', next_attempt_at FROM outbox"
FRESH = f"{_ROW} WHERE next_attempt_at = 0 AND rowid > ? AND rowid <= ? ORDER BY rowid LIMIT ?"
DUE = f"""{_ROW} WHERE next_attempt_at > 0 AND next_attempt_at <= ?
AND (next_attempt_at, rowid) > (?, ?) ORDER BY next_attempt_at, rowid LIMIT ?"""


class Store:
    """One open outbox, on the thread that owns it."""

    def __init__(
        self, connection: apsw.Connection, timeline: Timeline, bounds: Bounds, lanes: Mapping[str, Bounds]
    ) -> None:
        self.connection = connection
        self.timeline = timeline
        self._bounds = bounds
        self._lane_bounds = lanes
        self.lanes: dict[str, Lane] = {}
        self._changed: set[str] = set()
        self.requeues = 0
        """How often rows were made due again out of their order: whoever pages must begin anew."""
        self.reload()
        self.last_seq: int = connection.execute("SELECT coalesce(max(rowid), 0) FROM outbox").get

    def reload(self) -> None:
        """Take the counts from the file."""
        rows = self.connection.execute("SELECT lane, rows, bytes, rejected, acknowledged, dropped FROM lanes")
        self.lanes = {lane: Lane(*counts) for lane, *counts in rows}
        self._changed.clear()

    def save(self) -> None:
        """Write the counts that changed, and with them the time."""
        now_us = self.timeline.now_us()
        self.connection.executemany(
            "INSERT OR REPLACE INTO lanes VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (name, lane.rows, lane.bytes, lane.rejected, lane.acknowledged, lane.dropped, now_us)
                for name, lane in self.lanes.items()
                if name in self._changed
            ],
        )
        self._changed.clear()

    def counts(self) -> dict[str, Lane]:
        """A copy for another thread."""
        return {name: replace(lane) for name, lane in self.lanes.items()}

    # Putting.

    def put(self, event: Event, lane: str) -> Receipt:
        """Keep an event; raise OutboxFull when there is no room and nothing may make some."""
        size = len(event.payload_json) + ROW_BYTES_OVERHEAD
        excess_rows, excess_bytes = self._excess(lane, size)
        if excess_rows > 0 or excess_bytes > 0:
            if (known := self._known(event)) is not None:
                return known
            self._make_room(lane, excess_rows, excess_bytes)
        if lane not in self.lanes and len(self.lanes) >= LANES_MAX:
            raise OutboxFull(f"there are {LANES_MAX} lanes already, and {lane!r} would be one more")
        values = (
            self.last_seq + 1,
            event.event_id,
            event.payload_json.decode(),
            self.timeline.now_us(),
            lane,
            size,
        )
        self.connection.execute(_PUT, values)
        if not self.connection.changes():
            known = self._known(event)
            assert known is not None
            return known
        self.last_seq += 1
        counts = self._of(lane)
        counts.rows += 1
        counts.bytes += size
        return Receipt(event.event_id)

    def _of(self, lane: str) -> Lane:
        self._changed.add(lane)
        return self.lanes.setdefault(lane, Lane())

    def _known(self, event: Event) -> Receipt | None:
        found = self.connection.execute("SELECT payload_json FROM outbox WHERE event_id = ?", (event.event_id,)).get
        if found is None:
            return None
        return Receipt(event.event_id, duplicate=True, payload_conflict=found != event.payload_json.decode())

    def _excess(self, lane: str, size: int) -> tuple[int, int]:
        """By how many rows and bytes an event of this size would be too much, for its lane or for all together."""
        own = self.lanes.get(lane, Lane())
        own_bounds = self._lane_bounds.get(lane, self._bounds)
        rows = sum(each.rows for each in self.lanes.values())
        total_bytes = sum(each.bytes for each in self.lanes.values())
        return (
            max(own.rows + 1 - own_bounds.rows_max, rows + 1 - self._bounds.rows_max),
            max(own.bytes + size - own_bounds.bytes_max, total_bytes + size - self._bounds.bytes_max),
        )

    def _make_room(self, lane: str, excess_rows: int, excess_bytes: int) -> None:
        """Drop the oldest rows of the lane, if it may, and only if that will be enough."""
        held = self.lanes.get(lane, Lane())
        if not self._lane_bounds.get(lane, self._bounds).drop_oldest:
            raise OutboxFull(
                f"the outbox is full ({self._fill()}), and lane {lane!r} drops nothing: send it again later"
            )
        if excess_rows > held.rows or excess_bytes > held.bytes:
            raise OutboxFull(f"the outbox is full ({self._fill()}), and lane {lane!r} has not enough that it may drop")
        going, rejected = [], 0
        for rowid, size, state in self.connection.execute(_OLDEST, (lane,)):
            if excess_rows <= 0 and excess_bytes <= 0:
                break
            going.append((rowid,))
            excess_rows -= 1
            excess_bytes -= size
            rejected += state == "rejected"
            held.bytes -= size
        self.connection.executemany("DELETE FROM outbox WHERE rowid = ?", going)
        held.rows -= len(going)
        held.rejected -= rejected
        held.dropped += len(going)
        self._changed.add(lane)

    def _fill(self) -> str:
        rows = sum(each.rows for each in self.lanes.values())
        total_bytes = sum(each.bytes for each in self.lanes.values())
        return f"{rows} of {self._bounds.rows_max} rows, {total_bytes} of {self._bounds.bytes_max} bytes"

    # Settling.

    def acknowledge(self, event_ids: Iterable[str]) -> int:
        """Delete the rows whose own acknowledgement came; how many there were."""
        count = 0
        deleted = self.connection.executemany(
            "DELETE FROM outbox WHERE event_id = ? RETURNING lane, bytes, state", [(each,) for each in event_ids]
        )
        for lane, size, state in deleted:
            self._leave(lane, size, state)
            self._of(lane).acknowledged += 1
            count += 1
        return count

    def _leave(self, lane: str, size: int, state: str) -> None:
        counts = self._of(lane)
        counts.rows -= 1
        counts.bytes -= size
        counts.rejected -= state == "rejected"

    def reschedule(self, attempts: Iterable[Attempt]) -> None:
        """Note what became of rows that stay."""
        self.note_time()  # what is scheduled is never far from the noted time
        for attempt in attempts:
            event_id = attempt.event_id
            before = self.connection.execute("SELECT state FROM outbox WHERE event_id = ?", (event_id,)).get
            if before is None:
                continue  # dropped, or by hand
            after = "rejected" if attempt.rejected else before
            values = (int(attempt.attempted), attempt.next_attempt_at, attempt.error, after, event_id)
            lane = self.connection.execute(_RESCHEDULE, values).get
            if before != after:
                self._of(lane).rejected += 1

    def note_line(self, line: LineState) -> None:
        """Remember the connection's failures across a reboot."""
        self.note_time()
        self.connection.execute("UPDATE line SET failures = ?, next_attempt_at = ?, last_error = ? WHERE id = 1", line)

    def note_time(self) -> None:
        """Write the time, by which the next run checks its clock."""
        self._of(DEFAULT_LANE)

    def carry_over(self, delay_us_max: int) -> None:
        """Move what an earlier run has scheduled to this run's timeline; no delay is left past `delay_us_max`."""
        shift_us, latest_us = self.timeline.shift_us, self.timeline.now_us() + delay_us_max
        if shift_us:
            self.connection.execute(_SHIFT_OUTBOX, (shift_us,))
            self.connection.execute(_SHIFT_LINE, (shift_us,))
        self.connection.execute(_CUT_OUTBOX, (latest_us,))
        self.connection.execute(_CUT_LINE, (latest_us,))
        self.note_time()

    # For a person.

    def retry_rejected(self, event_ids: Sequence[str] | None) -> int:
        """Make refused rows due at once, these or all; how many."""
        return self._rejected("UPDATE outbox SET state = 'waiting', next_attempt_at = 0", event_ids, leave=False)

    def drop_rejected(self, event_ids: Sequence[str] | None) -> int:
        """Delete refused rows, these or all; how many."""
        return self._rejected("DELETE FROM outbox", event_ids, leave=True)

    def _rejected(self, statement: str, event_ids: Sequence[str] | None, *, leave: bool) -> int:
        returning = "RETURNING lane, bytes"
        if event_ids is None:
            done = list(self.connection.execute(f"{statement} WHERE state = 'rejected' {returning}"))
        else:
            one = f"{statement} WHERE state = 'rejected' AND event_id = ? {returning}"
            done = list(self.connection.executemany(one, [(each,) for each in event_ids]))
        for lane, size in done:
            if leave:
                self._leave(lane, size, "rejected")
                self._of(lane).dropped += 1
            else:
                self._of(lane).rejected -= 1
        self.requeues += bool(done)
        return len(done)

    # Reading.

    def fresh(self, after_seq: int, until_seq: int, rows_max: int, bytes_max: int) -> list[Row]:
        """Rows that were never tried, oldest first: a page of them."""
        return self._page(FRESH, (after_seq, until_seq, rows_max), bytes_max)

    def due(self, now_us: int, after: tuple[int, int], rows_max: int, bytes_max: int) -> list[Row]:
        """Rows that were tried and may be tried again, the one that is overdue longest first: a page of them."""
        return self._page(DUE, (now_us, *after, rows_max), bytes_max)

    def _page(self, statement: str, values: tuple[int, ...], bytes_max: int) -> list[Row]:
        page: list[Row] = []
        for seq, event_id, payload_json, attempts, rejected, at in self.connection.execute(statement, values):
            row = Row(seq, event_id, payload_json.encode(), attempts, bool(rejected), at)
            bytes_max -= len(row.payload_json)
            if page and bytes_max < 0:
                break
            page.append(row)
        return page

    def next_due_us(self, now_us: int) -> int | None:
        """When the next row will be due that is not due yet."""
        found: int | None = self.connection.execute(
            "SELECT min(next_attempt_at) FROM outbox WHERE next_attempt_at > ?", (now_us,)
        ).get
        return found

    def oldest_us(self) -> int | None:
        """When the oldest row was put."""
        found: int | None = self.connection.execute("SELECT created_at FROM outbox ORDER BY rowid LIMIT 1").get
        return found

    def line(self) -> LineState:
        """What was noted of the connection."""
        return LineState(*next(iter(self.connection.execute("SELECT failures, next_attempt_at, last_error FROM line"))))

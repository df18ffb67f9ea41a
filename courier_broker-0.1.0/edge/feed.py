"""Which row goes next: what is overdue, the backlog oldest first, and a share of the places for what is new.

After an outage the backlog may take hours. Without the share, an event of this minute would wait behind all of it. So
the feed draws a line when it begins: rows above it are new, and get at least their share of the places. When more of
them wait than `LIVE_ROWS_MAX`, they are a backlog themselves, and the line is drawn anew.

Nothing is held here but positions: rows are read from the file page by page, by index, however many wait. The positions
are a value. A pick that nobody waits for any more, because its line was lost, must not move those of the next line.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import NamedTuple

from edge.limits import LIVE_ROWS_MAX
from edge.store import Row, Store


@dataclass(frozen=True, slots=True)
class Positions:
    """How far a sender has come."""

    requeues: int = -1
    backlog_at: int = 0
    backlog_until: int = 0
    new_at: int = 0
    due_at: tuple[int, int] = (0, 0)
    credit: float = 0.0
    """How many places the new events are owed."""

    def with_rescheduled(self, at_us: int) -> "Positions":
        """Rows were scheduled for this time at the earliest: they are not behind us."""
        return replace(self, due_at=min(self.due_at, (at_us - 1, 0)))


class Picked(NamedTuple):
    """Rows to send, when the next one will be due that is not due yet, and the positions after them."""

    rows: list[Row]
    next_due_us: int | None
    positions: Positions


def pick(store: Store, at: Positions, new_share: float, rows_max: int, bytes_max: int, taken: Container[str]) -> Picked:
    """Up to so many rows that are due and not in `taken`."""
    picking = _Picking(store, at, rows_max, bytes_max, taken)
    credit = min(picking.credit + rows_max * new_share, float(rows_max))
    picking.new(int(credit))
    picking.credit = credit - len(picking.rows)
    picking.due((picking.places + 1) // 2)
    picking.backlog()
    picking.due(picking.places)
    picking.new(picking.places)
    return Picked(picking.rows, store.next_due_us(picking.now_us), picking.positions())


class _Picking:
    """One pick."""

    def __init__(self, store: Store, at: Positions, rows_max: int, bytes_max: int, taken: Container[str]) -> None:
        self._store = store
        self._taken = taken
        self.now_us = store.timeline.now_us()  # once: a row must not fall between what is due and what will be
        self.rows: list[Row] = []
        self.places = rows_max
        self._bytes = bytes_max
        if at.requeues != store.requeues:
            at = Positions(store.requeues, 0, store.last_seq, store.last_seq)
        if store.last_seq - at.new_at > LIVE_ROWS_MAX:
            at = replace(at, backlog_until=store.last_seq, new_at=store.last_seq)
        self._begin = at
        self._backlog_at, self._new_at, self._due_at, self.credit = at.backlog_at, at.new_at, at.due_at, at.credit

    def positions(self) -> Positions:
        return replace(
            self._begin,
            backlog_at=self._backlog_at,
            new_at=self._new_at,
            due_at=self._due_at,
            credit=self.credit,
        )

    def new(self, places: int) -> None:
        while places > 0 and self._bytes > 0:
            page = self._store.fresh(self._new_at, self._store.last_seq, places, self._bytes)
            if not self._fits(page):
                return
            self._new_at = page[-1].seq
            places -= self._take(page)

    def backlog(self) -> None:
        while self.places > 0 and self._bytes > 0:
            page = self._store.fresh(self._backlog_at, self._begin.backlog_until, self.places, self._bytes)
            if not self._fits(page):
                return
            self._backlog_at = page[-1].seq
            self._take(page)

    def due(self, places: int) -> None:
        while places > 0 and self._bytes > 0:
            page = self._store.due(self.now_us, self._due_at, places, self._bytes)
            if not self._fits(page):
                return
            self._due_at = (page[-1].next_attempt_at, page[-1].seq)
            places -= self._take(page)

    def _fits(self, page: list[Row]) -> bool:
        """Whether there is something on a page that there is room for; the first row of a pick always has room."""
        if page and self.rows and len(page[0].payload_json) > self._bytes:
            self._bytes = 0
        return bool(page) and self._bytes > 0

    def _take(self, page: list[Row]) -> int:
        """Keep what is not taken already; how many."""
        found = [row for row in page if row.event_id not in self._taken]
        self.rows += found
        self.places -= len(found)
        self._bytes -= sum(len(row.payload_json) for row in found)
        return len(found)

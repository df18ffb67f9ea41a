"""Whatever happens to rows, in any order: none is picked twice at once, none before its time, none is ever stuck."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.clock import ManualClock
from edge import storage
from edge.clock import Timeline
from edge.event import Event
from edge.feed import Positions, pick
from edge.store import Attempt, Bounds, Row, Store

LONG_MS = 10**9


class Outbox(RuleBasedStateMachine):
    """A store, the positions of its sender, and what is in flight."""

    @initialize()
    def begin(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.connection = storage.open_outbox(Path(self._directory.name) / "outbox.db")
        self.connection.pragma("synchronous", "off")
        self.store = Store(self.connection, Timeline(self.clock, 0), Bounds(), {})
        self.positions = Positions()
        self.flights: dict[str, Row] = {}
        self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "connection"):
            self._empty_it()
            self.connection.close()
            self._directory.cleanup()

    @rule(count=st.integers(1, 20), lane=st.sampled_from(["default", "live"]))
    def put(self, count: int, lane: str) -> None:
        with self.connection:
            for _ in range(count):
                self.number += 1
                self.store.put(Event(f"evt_{self.number}", b'{"x":%d}' % self.number), lane)
            self.store.save()

    @rule(rows_max=st.integers(1, 12), bytes_max=st.integers(1, 200), share=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
    def send(self, rows_max: int, bytes_max: int, share: float) -> None:
        picked = pick(self.store, self.positions, share, rows_max, bytes_max, frozenset(self.flights))
        self.positions = picked.positions
        assert len(picked.rows) <= rows_max
        assert sum(len(row.payload_json) for row in picked.rows[1:]) <= bytes_max
        for row in picked.rows:
            assert row.event_id not in self.flights
            assert row.next_attempt_at <= self.store.timeline.now_us()
            self.flights[row.event_id] = row

    @rule(data=st.data(), delay_ms=st.integers(1, 50), rejected=st.booleans(), late=st.booleans())
    def answer(self, data: st.DataObject, delay_ms: int, rejected: bool, late: bool) -> None:
        """Some are acknowledged, some refused; another pick may happen before the sender has taken note."""
        chosen = [each for each in self.flights if data.draw(st.booleans())]
        stored = [each for each in chosen if data.draw(st.booleans())]
        refused = [each for each in chosen if each not in stored]
        at_us = self.store.timeline.now_us() + delay_ms * 1_000
        with self.connection:
            assert self.store.acknowledge(stored) == len(stored)
            self.store.reschedule([Attempt(each, at_us, "no", rejected) for each in refused])
            self.store.save()
        if late:
            self.clock.advance(delay_ms)
            self.send(5, 1000, 0.5)
        for each in chosen:
            del self.flights[each]
        if refused:
            self.positions = self.positions.with_rescheduled(at_us)

    @rule(delay_ms=st.integers(1, 50))
    def lose_the_line(self, delay_ms: int) -> None:
        at_us = self.store.timeline.now_us() + delay_ms * 1_000
        with self.connection:
            self.store.reschedule([Attempt(each, at_us, "cut") for each in self.flights])
            self.store.save()
        self.flights.clear()
        self.positions = Positions()

    @rule()
    def retry_what_was_refused(self) -> None:
        with self.connection:
            self.store.retry_rejected(None)
            self.store.save()

    @rule(milliseconds=st.integers(0, 60))
    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)

    @invariant()
    def the_counts_are_true(self) -> None:
        if not hasattr(self, "connection"):
            return
        real = self.connection.execute(
            "SELECT lane, count(*), sum(bytes), sum(state = 'rejected') FROM outbox GROUP BY lane ORDER BY lane"
        ).fetchall()
        counted = [
            (name, lane.rows, lane.bytes, lane.rejected) for name, lane in sorted(self.store.lanes.items()) if lane.rows
        ]
        assert counted == real

    def _empty_it(self) -> None:
        """In the end, on one line, everything can be sent and acknowledged."""
        self.clock.advance(LONG_MS)
        while True:
            self.send(12, 10_000, 0.5)
            if not self.flights:
                break
            with self.connection:
                self.store.acknowledge(self.flights)
            self.flights.clear()
        assert self.connection.execute("SELECT count(*) FROM outbox").get == 0


TestOutbox = Outbox.TestCase
TestOutbox.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)

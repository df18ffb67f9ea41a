"""Retention of what was put off: what was settled long ago goes, and what waits, or says when something ran, stays."""

import re
from pathlib import Path

import apsw
import pytest

from broker.clock import ManualClock
from broker.config import Retention as RetentionConfig
from broker.journal import (
    deferral_queries,
    deferral_retention,
    deferrals,
    recurrences,
    retention,
    schema,
)
from broker.journal.deferrals import Deferral, Deferrals
from broker.journal.journal import Journal
from broker.journal.retention import Retention
from tests.journal.conftest import rows
from tests.journal.test_retention import no_pause

HOUR = 3600
HOUR_MS = HOUR * 1000


def deferral(clock: ManualClock, event_id: str | None = None) -> Deferral:
    return Deferral("bus", "topics/t", "ext", event_id, None, b"{}", clock.wall_us(), clock.wall_us() + 1)


async def test_what_was_settled_longer_ago_than_the_age_is_deleted_and_what_waits_is_not(
    journal: Journal, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SLICE_ROWS", 1)
    kept = Deferrals(journal)
    ids = [(await kept.put_off(deferral(clock, f"e{n}"))).id for n in range(5)]
    clock.advance(HOUR_MS)
    await kept.cancel(ids[0], clock.wall_us())
    await kept.offered([ids[1]], [], clock.wall_us())
    clock.advance(1)
    await kept.cancel(ids[2], clock.wall_us())
    await kept.passed_over([ids[3]], [], clock.wall_us())
    sweeper = Retention(journal, RetentionConfig(max_age_seconds=HOUR), clock)
    await sweeper.sweep(no_pause)
    assert len(rows(tmp_path, "SELECT id FROM deferrals")) == 5, "however old they are, they were settled just now"
    clock.advance(HOUR_MS)
    await sweeper.sweep(no_pause)
    assert [each for (each,) in rows(tmp_path, "SELECT id FROM deferrals ORDER BY id")] == ids[2:]
    clock.advance(1)
    await sweeper.sweep(no_pause)
    assert rows(tmp_path, "SELECT id, status FROM deferrals") == [(ids[4], "scheduled")]
    again = await kept.put_off(deferral(clock, "e0"))
    assert (again.duplicate, again.id) == (False, ids[4] + 1), "an id is never given twice"


async def test_of_what_recurs_the_last_run_stays_and_the_last_that_was_an_event(
    journal: Journal, clock: ManualClock, tmp_path: Path
) -> None:
    def fill(connection: apsw.Connection) -> None:
        for name, runs in (("daily", ["fired", "fired", "cancelled", "cancelled", "scheduled"]), ("gone", ["fired"])):
            for at, status in enumerate(runs):
                connection.execute(
                    "INSERT INTO deferrals (contract, stream, source, created_at, fire_at, status, settled_at, "
                    "recurrence, envelope) VALUES ('bus', 's', 'x', 0, ?1, ?2, CASE ?2 WHEN 'scheduled' THEN NULL "
                    "ELSE ?1 END, ?3, x'')",
                    (at, status, name),
                )
        connection.execute("INSERT INTO recurrences VALUES ('daily', '{}', 0), ('new', '{}', 0)")

    await journal.execute(fill)
    clock.advance(2 * HOUR_MS)
    await Retention(journal, RetentionConfig(max_age_seconds=HOUR), clock).sweep(no_pause)
    left = rows(tmp_path, "SELECT recurrence, fire_at, status FROM deferrals ORDER BY id")
    assert left == [("daily", 1, "fired"), ("daily", 3, "cancelled"), ("daily", 4, "scheduled")]


_WALKS = {
    "_WAITING": "SCAN deferrals USING INDEX deferrals_due",  # in its order, and only as far as a page
    "_COUNT": "SCAN deferrals USING COVERING INDEX deferrals_due",
}


def test_nothing_walks_over_all_that_is_put_off_or_was_but_the_count_which_is_of_the_index_alone() -> None:
    """A million rows, settled or not, cost no more than those that are asked for."""
    connection = apsw.Connection(":memory:")
    for step in schema.MIGRATIONS:
        connection.execute(step)
    looked_at = 0
    for module in (deferrals, deferral_queries, deferral_retention, recurrences):
        for name, sql in vars(module).items():
            if not isinstance(sql, str) or re.match(r"\s*(SELECT|UPDATE|INSERT|DELETE)", sql) is None or "{}" in sql:
                continue
            numbers = [int(number) for number in re.findall(r"\?(\d)", sql)]
            values = ["[]"] * max([sql.count("?") if not numbers else 0, *numbers])
            plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            walks = [line for line in plan if line.startswith("SCAN deferrals")]
            assert walks in ([], [_WALKS.get(name)]), (module.__name__, name, plan)
            if name == "_WAITING":
                assert not [line for line in plan if "TEMP B-TREE" in line], (module.__name__, plan)
            if module is recurrences and "status = 'scheduled'" in sql:
                assert any("deferrals_next_run" in line for line in plan), (name, plan)
            looked_at += 1
    assert looked_at >= 14
    connection.close()

"""What is put off counts only if what is due comes once, not early, and the rest still waits; all of it is shown."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from bench.failure import BenchmarkFailed, NotInstalled
from bench.results import Table
from bench.scenarios import bus as scenario
from bench.settings import Settings
from bench.shown import as_text
from bench.systems import deferred, libraries
from bench.systems.bus import Handled, opened, schedule
from bench.systems.deferred import Scheduled, scheduled_by_huey, scheduled_in, scheduled_to_fired
from bench.turns import Plan


class Honest:
    """A storage in memory that does what huey's does."""

    def __init__(self) -> None:
        self.schedule: list[tuple[datetime, bytes]] = []
        self.queue: list[bytes] = []

    def add_to_schedule(self, data: bytes, ts: datetime) -> None:
        self.schedule.append((ts, data))

    def read_schedule(self, ts: datetime) -> Sequence[bytes]:
        due = [data for when, data in self.schedule if when <= ts]
        self.schedule = [each for each in self.schedule if each[0] > ts]
        return due

    def enqueue(self, data: bytes) -> None:
        self.queue.append(data)

    def dequeue(self) -> bytes | None:
        return self.queue.pop(0) if self.queue else None

    def schedule_size(self) -> int:
        return len(self.schedule)


class Loses(Honest):
    def read_schedule(self, ts: datetime) -> Sequence[bytes]:
        return super().read_schedule(ts)[1:]


class Doubles(Honest):
    def enqueue(self, data: bytes) -> None:
        super().enqueue(data)
        if len(self.queue) == 1:
            super().enqueue(data)


class Alters(Honest):
    def dequeue(self) -> bytes | None:
        found = super().dequeue()
        return found and found[:-1]


class Forgets(Honest):
    def add_to_schedule(self, data: bytes, ts: datetime) -> None:
        if not data.startswith(b"3 "):
            super().add_to_schedule(data, ts)


class Hurries(Honest):
    def read_schedule(self, ts: datetime) -> Sequence[bytes]:
        return super().read_schedule(ts + timedelta(days=2))


def test_what_is_due_is_taken_and_the_rest_still_waits() -> None:
    storage = Honest()
    found = scheduled_in(storage, 5, 3)
    assert (storage.schedule_size(), storage.queue) == (5, [])
    assert found.rate > 0
    assert found.rate_due > 0


@pytest.mark.parametrize("storage", [Loses, Doubles, Alters, Hurries])
def test_a_storage_that_does_not_give_what_is_due_once_fails_the_run(storage: type[Honest]) -> None:
    with pytest.raises(BenchmarkFailed, match="3 events were due, and others came out"):
        scheduled_in(storage(), 5, 3)


def test_a_storage_that_forgets_what_is_not_due_yet_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="5 events wait for tomorrow, but 4 are in the schedule"):
        scheduled_in(Forgets(), 5, 3)


def test_huey_schedules_and_gives_what_is_due_with_a_sync_for_each(tmp_path: Path) -> None:
    pytest.importorskip("huey")
    found = scheduled_by_huey(tmp_path, 20, 10)
    assert (found.rate > 0, found.rate_due > 0, found.late) == (True, True, [])


def test_without_huey_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(libraries, "import_module", gone)
    with pytest.raises(NotInstalled, match="make bench-peers"):
        scheduled_by_huey(tmp_path, 1, 1)


def test_an_event_that_is_handled_twice_fails_the_run() -> None:
    class Event:
        payload = {"number": 1}  # noqa: RUF012 - as an event has it

    handled = Handled(2)
    handled(Event())  # type: ignore[arg-type]
    with pytest.raises(BenchmarkFailed, match="event 1 was handled twice"):
        handled(Event())  # type: ignore[arg-type]


def test_the_bus_handles_each_event_that_is_due_and_not_before_its_time(tmp_path: Path) -> None:
    found = scheduled_to_fired(tmp_path, 30, 20, lead_seconds=2.0)
    assert len(found.late) == 20
    assert 0 <= found.late[0] <= found.late[-1]
    assert found.rate > 0
    assert found.rate_due > 0


def test_events_that_could_not_be_scheduled_before_they_are_due_fail_the_run(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFailed, match="too short to schedule 5 events"):
        scheduled_to_fired(tmp_path, 1, 5, lead_seconds=-1.0)


def test_an_event_that_is_handled_before_its_time_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hasty(Handled):
        def __init__(self, expected: int, _now: object) -> None:
            super().__init__(expected, lambda: 0.0)

    monkeypatch.setattr(deferred, "Handled", Hasty)
    with pytest.raises(BenchmarkFailed, match="before it was due"):
        scheduled_to_fired(tmp_path, 1, 5, lead_seconds=1.5)


# The tables, of what a run would find.

FOUND = Scheduled(rate=9_000.0, rate_due=6_000.0, late=[0.001 * place for place in range(1, 21)])
FOUND_HUEY = Scheduled(rate=3_000.0, rate_due=2_000.0, late=[])


def tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, huey: bool = True, full: bool = False
) -> dict[str, Table]:
    asked: list[tuple[int, ...]] = []

    def by_courier(directory: Path, far: int, due: int) -> Scheduled:
        asked.append((far, due))
        return FOUND

    def by_huey(directory: Path, far: int, due: int) -> Scheduled:
        asked.append((far, due))
        if not huey:
            raise NotInstalled("get it")
        return FOUND_HUEY

    monkeypatch.setattr(scenario, "scheduled_to_fired", by_courier)
    monkeypatch.setattr(scenario, "scheduled_by_huey", by_huey)
    monkeypatch.setattr(scenario, "start_with", lambda home: (0.4, 50.0) if home.name == "deferred" else (0.3, 40.0))
    found = list(scenario.deferred(Settings(tmp_path, Plan(), full)))
    assert asked == ([(1_000_000, 10_000), (20_000, 10_000)] if full else [(50_000, 1_000), (1_000, 1_000)])
    return {table.name: table for table in found}


@pytest.mark.parametrize("full", [False, True])
def test_scheduling_and_what_is_due_stand_beside_huey_and_a_start_beside_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    found = tables(tmp_path, monkeypatch, full=full)
    assert list(found) == ["deferred", "deferred-due", "deferred-lateness", "deferred-start"]
    for name, rates in (("deferred", [9_000, 3_000]), ("deferred-due", [6_000, 2_000])):
        table = found[name]
        assert [(row.name, row.figures.get("rate")) for row in table.rows] == [
            ("Courier", rates[0]), ("huey", rates[1]), ("litequeue", None)]  # fmt: skip
        assert [(ratio.to, ratio.value) for ratio in table.ratios] == [("huey", 3.0)]
        assert "it cannot schedule" in as_text(table)
        assert "its scheduler looks once a second" in table.rows[1].note
    assert found["deferred-lateness"].rows[0].figures["max"] == pytest.approx(20.0)
    assert [row.figures for row in found["deferred-start"].rows] == [
        {"ready": 400.0, "memory": 50.0}, {"ready": 300.0, "memory": 40.0}]  # fmt: skip


def test_who_is_not_installed_is_shown_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tables(tmp_path, monkeypatch, huey=False)
    assert [(row.name, row.skipped) for row in found["deferred"].rows] == [
        ("Courier", ""), ("litequeue", "it cannot schedule"), ("huey", "get it")]  # fmt: skip
    assert found["deferred"].ratios == []


def test_the_bus_is_measured_with_one_topic_with_a_hundred_and_by_its_latency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(seconds=0.1, rounds=1, first_events=100, events_max=200)
    monkeypatch.setattr(scenario, "published_to_handled", lambda home, rate, count: [0.001, 0.002])
    rates, latency = scenario.bus(Settings(tmp_path, plan))
    assert [row.name for row in rates.rows][:2] == ["Courier, one topic", "Courier, 100 topics"]
    assert all(row.figures["rate"] > 0 for row in rates.rows[:2])
    assert "claim: 5 ms" in latency.rows[0].name
    assert latency.rows[0].figures["max"] == pytest.approx(2.0)


def test_a_start_is_measured_with_what_the_bus_has_put_off(tmp_path: Path) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with opened(tmp_path) as (runner, broker):
        runner.run(schedule(broker, "bench.far", 3, lambda _number: tomorrow))
    seconds, mib = deferred.start_with(tmp_path)
    assert seconds > 0
    assert mib > 1
    ledger = apsw.Connection(str(tmp_path / "courier.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert ledger.execute("SELECT count(*) FROM deferrals WHERE status = 'scheduled'").get == 3
    ledger.close()

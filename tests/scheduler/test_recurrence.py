"""When something recurs: cron expressions in a time zone, around its changes of the clock, and intervals."""

from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from broker.errors import InvalidRequest
from broker.limits import (
    RECURRING_CRON_BYTES_MAX,
    RECURRING_EVERY_MS_MAX,
    RECURRING_EVERY_MS_MIN,
    RECURRING_MISSED_SECONDS,
    RECURRING_RUNS_MISSED_MAX,
)
from broker.scheduler.recurrence import Recurrence

BERLIN = "Europe/Berlin"


def recurrence(**when: Any) -> Recurrence:
    """Something that recurs."""
    return Recurrence(contract="bus", stream="topics/t", source="s", content="{}", **when)


def us(text: str) -> int:
    """A time in microseconds since 1970."""
    return round(datetime.fromisoformat(text).timestamp()) * 1_000_000


def times(what: Recurrence, after: str, count: int, zone: str = "UTC") -> list[str]:
    """The next times, as a clock in a zone shows them."""
    shown, at = [], us(after)
    for _ in range(count):
        following = what.next_after(at)
        assert following is not None
        at = following
        shown.append(datetime.fromtimestamp(at / 1e6, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return shown


def test_a_fixed_time_that_spring_leaves_out_runs_right_after_the_gap() -> None:
    daily = recurrence(cron="30 2 * * *", tz=BERLIN)
    assert times(daily, "2026-03-27T12:00:00+00:00", 3, BERLIN) == [
        "2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00",
    ]  # fmt: skip


def test_a_fixed_time_that_autumn_has_twice_runs_the_first_time_only() -> None:
    daily = recurrence(cron="30 2 * * *", tz=BERLIN)
    assert times(daily, "2026-10-24T12:00:00+00:00", 2, BERLIN) == ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]


def test_what_runs_every_half_hour_does_so_as_real_time_passes() -> None:
    often = recurrence(cron="*/30 * * * *", tz=BERLIN)
    assert times(often, "2026-10-24T23:50:00+00:00", 5, BERLIN) == [
        "2026-10-25T02:00+02:00", "2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00",
        "2026-10-25T03:00+01:00",
    ]  # fmt: skip
    assert times(often, "2026-03-29T00:40:00+00:00", 2, BERLIN) == ["2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"]


def test_without_a_zone_cron_is_utc() -> None:
    assert times(recurrence(cron="0 9 * * MON-FRI"), "2026-02-20T09:00:00+00:00", 2) == [
        "2026-02-23T09:00+00:00", "2026-02-24T09:00+00:00",
    ]  # fmt: skip


def test_an_interval_is_counted_from_its_start_and_a_time_of_its_own_is_not_after_itself() -> None:
    every = recurrence(every_ms=1_500, start=100)
    assert [every.next_after(at) for at in (0, 100, 1_500_099, 1_500_100)] == [
        1_500_100, 1_500_100, 1_500_100, 3_000_100,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ({}, 'say when: either "cron"'),
        ({"cron": "* * * * *", "every_ms": 1_000}, 'say when: either "cron"'),
        ({"cron": "* * * *"}, "five fields: .* has 4"),
        ({"cron": "* * * * * *"}, "five fields: .* has 6"),
        ({"cron": "61 * * * *"}, "Bad minute in '61"),
        ({"cron": "0 9 * * MON", "tz": "Europe/Berln"}, "tz: 'Europe/Berln' is not a time zone"),
        ({"cron": "0 9 * * MON", "tz": "../etc/passwd"}, "is not a time zone"),
        ({"cron": "0 9 * * MON", "tz": ""}, "is not a time zone"),
        ({"cron": " ".join(["1," * 50 + "1"] + ["*"] * 4) + " " * RECURRING_CRON_BYTES_MAX}, "more than 255 bytes"),
        ({"every_ms": RECURRING_EVERY_MS_MIN - 1}, "everyMs must be from 100"),
        ({"every_ms": RECURRING_EVERY_MS_MAX + 1}, "everyMs must be from 100"),
    ],
)
def test_what_does_not_say_when_is_refused_with_its_reason(when: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        recurrence(**when).check()


@pytest.mark.parametrize("every_ms", [RECURRING_EVERY_MS_MIN, RECURRING_EVERY_MS_MAX])
def test_an_interval_at_its_bounds_is_taken(every_ms: int) -> None:
    recurrence(every_ms=every_ms).check()


@pytest.mark.parametrize("missed", ["skip", "once"])
def test_after_a_long_night_only_the_next_time_counts(missed: Any) -> None:
    minutely = recurrence(cron="* * * * *", missed=missed)
    now = us("2026-06-01T08:00:30+00:00")
    assert minutely.following(us("2026-06-01T00:00:00+00:00"), now) == us("2026-06-01T08:01:00+00:00")


def test_a_run_is_missed_when_it_is_more_than_a_minute_late() -> None:
    what, limit = recurrence(every_ms=1_000), RECURRING_MISSED_SECONDS * 1_000_000
    assert [what.is_missed(0, limit), what.is_missed(0, limit + 1)] == [False, True]


@pytest.mark.parametrize("when", [{"cron": "* * * * *"}, {"every_ms": 60_000}])
@pytest.mark.parametrize(
    ("missed", "made_up_for"), [(20, 20), (RECURRING_RUNS_MISSED_MAX * 3, RECURRING_RUNS_MISSED_MAX)]
)
def test_all_makes_up_for_each_missed_run_up_to_the_bound_the_newest(
    when: dict[str, Any], missed: int, made_up_for: int
) -> None:
    what = recurrence(**when, missed="all")
    begin = us("2026-06-01T00:00:00+00:00")
    now = begin + missed * 60_000_000 + 30_000_000
    runs, at = [], what.following(begin, now)
    while at is not None and at <= now:
        runs.append(at)
        at = what.following(at, now)
    assert len(runs) == made_up_for
    assert runs[-1] == now - 30_000_000
    assert {later - earlier for earlier, later in pairwise(runs)} == {60_000_000}


def test_a_time_that_never_comes_is_none() -> None:
    never = recurrence(cron="* * */20 * 1L")
    never.check()
    assert never.next_after(us("2026-01-01T00:00:00+00:00")) is None

"""Time and delays: no jump of a clock stalls or stampedes."""

import random

import pytest

from broker.clock import ManualClock
from edge.backoff import Backoff
from edge.clock import RELEASED_US, SystemClock, Timeline
from edge.errors import SettingsInvalid

HOUR_US = 3600 * 1_000_000
NOTED_US = RELEASED_US + 1000 * HOUR_US


def test_within_a_run_the_wall_clock_may_jump_as_it_likes() -> None:
    clock = ManualClock()
    timeline = Timeline(clock, 0)
    began = timeline.now_us()
    for wall_us in (0, RELEASED_US * 3, 1):
        clock.set_wall_us(wall_us)
        assert timeline.now_us() == began
    clock.advance(5)
    assert timeline.now_us() == began + 5_000


@pytest.mark.parametrize(
    ("wall_us", "noted_us", "begins", "shift_us"),
    [
        (NOTED_US + HOUR_US, NOTED_US, NOTED_US + HOUR_US, 0),
        (NOTED_US - HOUR_US, NOTED_US, NOTED_US - HOUR_US, -HOUR_US),
        (5_000_000, NOTED_US, NOTED_US, 0),
        (5_000_000, 0, RELEASED_US, 0),
        (NOTED_US, 0, NOTED_US, 0),
        (NOTED_US, NOTED_US, NOTED_US, 0),
    ],
    ids=["time was off", "set back", "1970", "1970, and new", "new", "no time was off"],
)
def test_a_timeline_begins_where_rows_are_neither_stalled_nor_all_due(
    wall_us: int, noted_us: int, begins: int, shift_us: int
) -> None:
    timeline = Timeline(ManualClock(wall_us=wall_us), noted_us)
    assert (timeline.now_us(), timeline.shift_us) == (begins, shift_us)


def test_the_clocks_of_the_machine_are_read_in_their_units() -> None:
    clock = SystemClock()
    assert clock.monotonic_ms() <= clock.monotonic_ms()
    assert RELEASED_US < clock.wall_us() < 2 * RELEASED_US


def test_a_delay_is_anything_up_to_a_step_that_doubles_up_to_the_cap() -> None:
    backoff, rng = Backoff(1.0, 60.0), random.Random(1)
    assert [backoff.step_seconds(failures) for failures in (0, 1, 2, 3, 6, 7, 8, 10**9)] == [1, 1, 2, 4, 32, 60, 60, 60]
    delays = [backoff.delay_us(4, rng) for _ in range(1000)]
    assert min(delays) < 500_000
    assert 7_500_000 < max(delays) <= 8_000_000
    assert 3_500_000 < sum(delays) / 1000 < 4_500_000


def test_the_slow_schedule_takes_at_least_half_of_its_step() -> None:
    rng = random.Random(1)
    delays = [Backoff(900.0, 86400.0, floor=0.5).delay_us(2, rng) for _ in range(1000)]
    assert 900_000_000 <= min(delays) < max(delays) <= 1_800_000_000


@pytest.mark.parametrize(("base", "cap"), [(0.0, 1.0), (2.0, 1.0), (1.0, 8 * 24 * 3600.0), (float("nan"), 1.0)])
def test_a_backoff_out_of_bounds_is_refused(base: float, cap: float) -> None:
    with pytest.raises(SettingsInvalid, match="backoff"):
        Backoff(base, cap)

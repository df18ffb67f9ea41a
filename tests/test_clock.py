"""Clocks: the machine's go forward, the manual one goes where it is put."""

import pytest

from broker.clock import ManualClock, SystemClock


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(10_000)]
    assert readings == sorted(readings)


def test_the_wall_clock_tells_the_time_of_day_in_microseconds() -> None:
    assert 1_700_000_000_000_000 < SystemClock().wall_us() < 10_000_000_000_000_000


def test_a_manual_clock_moves_both_hands_by_as_much_as_it_is_told() -> None:
    clock = ManualClock(wall_us=1_000, monotonic_ms=5)
    clock.advance(3)
    assert (clock.wall_us(), clock.monotonic_ms()) == (4_000, 8)


def test_setting_the_wall_clock_leaves_the_monotonic_one_alone() -> None:
    clock = ManualClock(wall_us=1_000, monotonic_ms=5)
    clock.set_wall_us(0)
    assert (clock.wall_us(), clock.monotonic_ms()) == (0, 5)


def test_time_does_not_pass_backwards() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)

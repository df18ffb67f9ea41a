"""Rounds in turns, and what is made of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.failure import NotInstalled
from bench.load.drive import Timed
from bench.turns import Contender, Plan, Standing, Turn, in_turns

PLAN = Plan(seconds=1.0, rounds=3, first_events=100)


def contender(name: str, rate: float, calls: list[tuple[str, int, int]], step: int = 1) -> Contender:
    @contextmanager
    def start(_directory: Path) -> Iterator[Turn]:
        def turn(first: int, count: int) -> Timed:
            calls.append((name, first, count))
            return Timed(count / rate, 0.5)

        yield turn

    return Contender(name, start, step)


def test_everybody_has_a_round_before_anybody_has_the_next(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    in_turns([contender("a", 1_000, calls), contender("b", 2_000, calls)], PLAN, tmp_path)
    assert [name for name, _, _ in calls] == [*"aabb", *"ababab"]  # two of each warm up


def test_a_round_takes_about_as_long_for_the_slow_as_for_the_fast(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    slow, fast = in_turns([contender("a", 1_000, calls), contender("b", 64_000, calls, step=100)], PLAN, tmp_path)
    assert (slow.events, fast.events) == (1_000, 64_000)
    assert (slow.rate, fast.rate) == (1_000, 64_000)
    assert fast.ratio(slow) == 64


def test_no_event_is_sent_twice_over_all_rounds(tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    in_turns([contender("a", 1_000, calls, step=7)], PLAN, tmp_path)
    ends = [first + count for _, first, count in calls]
    assert [first for _, first, _ in calls] == [1, *ends[:-1]]
    assert all(count % 7 == 0 for _, _, count in calls)


def test_who_is_not_installed_is_skipped_with_the_reason(tmp_path: Path) -> None:
    @contextmanager
    def missing(_directory: Path) -> Iterator[Turn]:
        raise NotInstalled("get it with apt-get")
        yield

    calls: list[tuple[str, int, int]] = []
    gone, there = in_turns([Contender("gone", missing), contender("a", 1_000, calls)], PLAN, tmp_path)
    assert gone.skipped == "get it with apt-get"
    assert gone.rates == []
    assert len(there.rates) == 3


def test_a_ratio_is_the_median_of_the_rounds_and_one_bad_round_does_not_move_it() -> None:
    mine, theirs = Standing("a", rates=[100, 100, 10]), Standing("b", rates=[50, 50, 50])
    assert mine.ratio(theirs) == pytest.approx(2.0)
    assert mine.rate == 100

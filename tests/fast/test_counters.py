"""Counters: what was counted is what is read, and counting allocates nothing."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _fast
from tests.fast.counters_model import Counters as Model

NAMES = ("came", "delivered", "redelivered", "acked", "nacked", "dead")
STEPS = st.sampled_from(
    [("count_came",), ("count_delivered", True), ("count_delivered", False), ("count_acked",), ("count_nacked",),
     ("count_dead",), ("count_dead", 0), ("count_dead", 5), ("count_came", 7), ("count_acked", 3), ("count_acked", 0)]
)  # fmt: skip


def read(counters: Any) -> list[int]:
    return [getattr(counters, name) for name in NAMES]


def test_new_counters_are_at_zero(Counters: Any) -> None:
    assert read(Counters()) == [0] * 6


def test_each_count_is_its_own(Counters: Any) -> None:
    counters = Counters()
    counters.count_came()
    counters.count_delivered(False)
    counters.count_delivered(True)
    counters.count_acked()
    counters.count_nacked()
    counters.count_dead()
    counters.count_dead(3)
    assert read(counters) == [1, 2, 1, 1, 1, 4]


@pytest.mark.parametrize(("count", "error"), [(-1, ValueError), (2**63, OverflowError), (-(2**63) - 1, OverflowError)])
@pytest.mark.parametrize("name", ["count_came", "count_acked", "count_dead"])
def test_what_cannot_be_a_count_changes_nothing(Counters: Any, name: str, count: int, error: type[Exception]) -> None:
    counters = Counters()
    with pytest.raises(error):
        getattr(counters, name)(count)
    assert read(counters) == [0] * 6


@given(st.lists(STEPS, max_size=200))
def test_any_program_counts_what_the_model_counts(steps: list[tuple[Any, ...]]) -> None:
    compiled, model = _fast.Counters(), Model()
    for name, *values in steps:
        for each in (compiled, model):
            getattr(each, name)(*values)
    assert read(compiled) == read(model)


def test_counts_cannot_be_set_from_outside() -> None:
    for name in NAMES:
        with pytest.raises(AttributeError):
            setattr(_fast.Counters(), name, 1)


def test_a_million_events_are_counted_without_an_allocation() -> None:
    counters = _fast.Counters()
    acked, came = counters.count_acked, counters.count_came
    before = sys.getallocatedblocks()
    for _ in range(1_000_000):
        came()
        acked()
    assert sys.getallocatedblocks() - before < 100
    assert (counters.came, counters.acked) == (1_000_000, 1_000_000)

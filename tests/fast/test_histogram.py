"""Histogram: percentiles within three percent, from a microsecond to an hour, in a fixed number of bytes."""

import gc
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import _fast
from tests.fast import models
from tests.fast.outcome import outcome, raised
from tests.fast.test_reentrancy import collecting

TOP_US = 3_600_000_000
EDGES = sorted(
    {max(0, (32 + part << shift) + step) for shift in range(28) for part in (0, 1, 31) for step in (-1, 0, 1)}
)
VALUES = st.integers(0, 70) | st.sampled_from(EDGES) | st.integers(0, TOP_US) | st.integers(-5, 2**40)
PERCENTILES = st.sampled_from([0, 1, 50, 95, 99, 99.9, 100]) | st.floats(0, 100)


def recorded(Histogram, values):
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def counted_as(value):
    return max(0, min(value, TOP_US))


def test_an_empty_histogram_answers_zero_to_everything(Histogram):
    histogram = Histogram()
    assert (histogram.count, histogram.total, histogram.buckets()) == (0, 0, [])
    assert [histogram.percentile(p) for p in (0, 50, 100)] == [0, 0, 0]


@pytest.mark.parametrize("value", range(64))
def test_a_value_below_64_is_known_exactly(Histogram, value):
    histogram = recorded(Histogram, [value])
    assert histogram.percentile(50) == value
    assert histogram.buckets() == [(value, 1)]


@pytest.mark.parametrize("value", [edge for edge in EDGES if 1 <= edge <= TOP_US])
def test_a_value_is_known_to_three_percent_at_both_edges_of_its_bucket(Histogram, value):
    histogram = recorded(Histogram, [value])
    assert abs(histogram.percentile(100) - value) <= 0.03 * value
    ((highest, count),) = histogram.buckets()
    assert count == 1
    assert value <= highest <= value * 1.04


@pytest.mark.parametrize("value", [0, -1, -(2**63)])
def test_a_negative_value_counts_as_zero(Histogram, value):
    histogram = recorded(Histogram, [value])
    assert (histogram.count, histogram.total, histogram.percentile(50)) == (1, 0, 0)
    assert histogram.buckets() == [(0, 1)]


@pytest.mark.parametrize("value", [TOP_US - 1, TOP_US, TOP_US + 1, 2**32, 2**63 - 1])
def test_everything_above_an_hour_is_in_the_last_bucket(Histogram, value):
    histogram = recorded(Histogram, [value])
    assert histogram.buckets() == [(TOP_US, 1)]
    assert histogram.total == min(value, TOP_US)
    assert abs(histogram.percentile(50) - TOP_US) <= 0.03 * TOP_US


def test_every_value_has_a_bucket_that_ends_before_the_next_one_begins(Histogram):
    """Walks from bucket to bucket: the value after the end of one is in the next, and nothing is in between."""
    value, ends = 0, []
    while value <= TOP_US:
        ((highest, _),) = recorded(Histogram, [value]).buckets()
        assert recorded(Histogram, [highest]).buckets() == [(highest, 1)]
        ends.append(highest)
        value = highest + 1
    assert len(ends) == 886
    assert ends[-1] == TOP_US


def test_percentiles_are_those_of_the_nearest_rank(Histogram):
    histogram = recorded(Histogram, [50, 10, 40, 20, 30])
    asked = [0, 1, 20, 20.1, 40, 50, 60.5, 80, 99, 100]
    assert [histogram.percentile(p) for p in asked] == [10, 10, 10, 20, 20, 30, 40, 40, 50, 50]


@pytest.mark.parametrize("p", [-0.001, -1, 100.001, 1000, math.inf, -math.inf, math.nan])
def test_a_percentile_out_of_bounds_is_refused_also_by_an_empty_histogram(Histogram, p):
    assert raised(Histogram().percentile, p) is ValueError
    assert raised(recorded(Histogram, [1]).percentile, p) is ValueError


def test_a_merge_counts_what_the_other_counted_and_leaves_it_alone(Histogram):
    first, second = recorded(Histogram, [1, 2, 1000]), recorded(Histogram, [2, 5_000_000])
    before = second.buckets()
    first.merge(second)
    both = recorded(Histogram, [1, 2, 1000, 2, 5_000_000])
    assert (first.count, first.total, first.buckets()) == (both.count, both.total, both.buckets())
    assert second.buckets() == before


def test_a_merge_with_an_empty_one_or_with_itself_counts_right(Histogram):
    histogram, empty = recorded(Histogram, [7, 7, 8]), Histogram()
    histogram.merge(empty)
    assert histogram.buckets() == [(7, 2), (8, 1)]
    empty.merge(histogram)
    assert empty.buckets() == [(7, 2), (8, 1)]
    histogram.merge(histogram)
    assert (histogram.count, histogram.total, histogram.buckets()) == (6, 44, [(7, 4), (8, 2)])


def test_a_cleared_histogram_is_as_new(Histogram):
    histogram = recorded(Histogram, [1, 100, 10_000])
    histogram.clear()
    assert (histogram.count, histogram.total, histogram.buckets(), histogram.percentile(99)) == (0, 0, [], 0)
    histogram.record(5)
    assert histogram.buckets() == [(5, 1)]


@given(values=st.lists(VALUES, min_size=1, max_size=200), p=PERCENTILES)
def test_percentiles_agree_with_a_sorted_list_to_three_percent(values, p):
    histogram = recorded(_fast.Histogram, values)
    true = sorted(map(counted_as, values))[max(1, math.ceil(p * len(values) / 100)) - 1]
    assert abs(histogram.percentile(p) - true) <= 0.03 * true
    assert histogram.count == len(values) == sum(count for _, count in histogram.buckets())
    assert histogram.total == sum(map(counted_as, values))


@given(parts=st.lists(st.lists(VALUES, max_size=50), max_size=5))
def test_merged_parts_are_the_whole(parts):
    merged = _fast.Histogram()
    for part in parts:
        merged.merge(recorded(_fast.Histogram, part))
    whole = recorded(_fast.Histogram, [value for part in parts for value in part])
    assert (merged.count, merged.total, merged.buckets()) == (whole.count, whole.total, whole.buckets())


class HistogramMachine(RuleBasedStateMachine):
    """Two pairs of a compiled histogram and its model, which are merged into each other."""

    @initialize()
    def start(self):
        self.pairs = [(_fast.Histogram(), models.Histogram()) for _ in range(2)]

    @rule(which=st.integers(0, 1), values=st.lists(VALUES, min_size=1, max_size=30))
    def record(self, which, values):
        for value in values:
            for each in self.pairs[which]:
                each.record(value)

    @rule(which=st.integers(0, 1), other=st.integers(0, 1))
    def merge(self, which, other):
        if self.pairs[which][1].count < 10**6:
            for each, its_other in zip(self.pairs[which], self.pairs[other], strict=True):
                each.merge(its_other)

    @rule(which=st.integers(0, 1))
    def clear(self, which):
        for each in self.pairs[which]:
            each.clear()

    @rule(which=st.integers(0, 1), p=PERCENTILES | st.sampled_from([-1, 101]))
    def percentile(self, which, p):
        compiled, model = self.pairs[which]
        assert outcome(compiled.percentile, p) == outcome(model.percentile, p)

    @invariant()
    def they_look_the_same(self):
        for compiled, model in self.pairs:
            assert (compiled.count, compiled.total) == (model.count, model.total)
            assert compiled.buckets() == model.buckets()


TestHistogram = HistogramMachine.TestCase


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 2**100])
def test_a_wide_number_is_refused_and_not_counted(number):
    histogram = _fast.Histogram()
    assert raised(histogram.record, number) is OverflowError
    assert (histogram.count, sys.getsizeof(histogram)) == (0, sys.getsizeof(_fast.Histogram()))


@pytest.mark.parametrize("stranger", [None, 1, "histogram", models.Histogram()])
def test_only_a_histogram_is_merged(stranger):
    assert raised(_fast.Histogram().merge, stranger) is TypeError


def test_an_idle_histogram_costs_less_than_100_bytes_and_one_in_use_7_kilobytes():
    histogram = _fast.Histogram()
    assert sys.getsizeof(histogram) < 100
    histogram.percentile(50)
    histogram.merge(_fast.Histogram())
    assert sys.getsizeof(histogram) < 100
    for value in EDGES:
        histogram.record(value)
        assert sys.getsizeof(histogram) <= 886 * 8 + 100
    histogram.clear()
    assert sys.getsizeof(histogram) < 100


def test_recording_allocates_nothing_and_histograms_that_come_and_go_leave_no_trace():
    histogram = recorded(_fast.Histogram, [1])
    values, blocks = [*EDGES, -1, 2**62], []
    for _ in range(3):
        for value in values * 20:
            histogram.record(value)
        for _ in range(1000):
            other = recorded(_fast.Histogram, [1, 100])
            other.merge(histogram)
            other.clear()
            outcome(other.percentile, -1)
            outcome(other.merge, None)
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    assert abs(blocks[2] - blocks[1]) < 50


@pytest.mark.parametrize("moment", range(1, 6))
def test_a_histogram_that_is_cleared_while_it_lists_its_buckets_lists_all_of_them_or_none(moment):
    histogram = recorded(_fast.Histogram, range(20))
    listed = collecting(histogram.buckets, moment, histogram.clear)
    assert listed in ([], [(value, 1) for value in range(20)])
    assert (histogram.count, histogram.buckets()) == (0, [])

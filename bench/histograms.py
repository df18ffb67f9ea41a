"""Latencies counted one by one, and the three percentiles of a metrics page at the end of a round, as work to be timed.

The choice from the standard library looks the bucket up with `bisect` in a list of the same bounds: a sorted list
of the values themselves would be exact, and would grow with every event.
"""

from bisect import bisect_left
from itertools import accumulate
from math import ceil
from typing import Any

import _fast
from bench.cycles import OPERATIONS, Contender, Work

PERCENTILES = (50, 95, 99)
TOP_US = 3_600_000_000


def latencies(number: int) -> list[int]:
    """From 0.2 ms to 13 s, most of them short: the same for everybody, and others in each round."""
    first = number * OPERATIONS
    return [200 + (event * 7919 % 1_000) ** 2 * (event % 14) for event in range(first, first + OPERATIONS)]


def histogram_of(structures: Any) -> Contender:
    histogram = structures.Histogram()

    def prepare(number: int) -> Work:
        def work() -> None:
            record = histogram.record
            for value in values:
                record(value)
            for p in PERCENTILES:
                histogram.percentile(p)

        values = latencies(number)
        return work

    return prepare


def histogram_of_stdlib() -> Contender:
    every_bucket = _fast.Histogram()
    every_bucket.record(value := TOP_US)
    while value:
        value -= max(1, value // 64)
        every_bucket.record(value)
    bounds = [highest for highest, _ in every_bucket.buckets()]
    assert len(bounds) == 886
    counts = [0] * len(bounds)

    def prepare(number: int) -> Work:
        def work() -> None:
            total = 0
            for value in values:
                # No call of min() here: this contender calls nothing that it need not call.
                counted = 0 if value < 0 else TOP_US if value > TOP_US else value  # noqa: FURB136
                counts[bisect_left(bounds, counted)] += 1
                total += counted
            reached = list(accumulate(counts))
            for p in PERCENTILES:
                bounds[bisect_left(reached, max(1, ceil(p * reached[-1] / 100)))]

        values = latencies(number)
        return work

    return prepare

"""The histogram in plain Python; `models.py` has the other structures, and says what a model is."""

import math
from collections import Counter

TOP_US = 3_600_000_000


class Histogram:
    """A counter of spans. A span keeps the six highest bits of its values, so 32 of them make up a power of two."""

    def __init__(self) -> None:
        self.clear()

    def record(self, value_us: int) -> None:
        """Count the span of a value."""
        value_us = max(0, min(value_us, TOP_US))
        shift = max(0, value_us.bit_length() - 6)
        lowest = value_us >> shift << shift
        self._spans[lowest, min(lowest + (1 << shift) - 1, TOP_US)] += 1
        self.count += 1
        self.total += value_us

    def percentile(self, p: float) -> int:
        """Walk up the spans to the rank that is asked for."""
        if not 0 <= p <= 100:
            raise ValueError(f"a percentile is 0 .. 100, not {p}")
        rank = max(1, math.ceil(float(p) * self.count / 100))
        for (lowest, highest), count in sorted(self._spans.items()):
            rank -= count
            if rank <= 0:
                return (lowest + highest) // 2
        return 0

    def merge(self, other: "Histogram") -> None:
        """Add the counts up."""
        self._spans.update(other._spans)
        self.count += other.count
        self.total += other.total

    def clear(self) -> None:
        """Start again."""
        self._spans: Counter[tuple[int, int]] = Counter()
        self.count = self.total = 0

    def buckets(self) -> list[tuple[int, int]]:
        """The spans by their upper ends."""
        return [(highest, count) for (_, highest), count in sorted(self._spans.items())]

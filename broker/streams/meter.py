"""How a stream is doing: how fast events come and go, and how long they wait for their first delivery."""

import math
from typing import Final

from _fast import Histogram

RATE_SECONDS: Final = 5.0
"""How far back a rate looks: what is older than this counts for less than 37 percent."""


class Rate:
    """Events a second, of late. Each event counts for less the longer ago it was."""

    __slots__ = ("_at_ms", "_level")

    def __init__(self) -> None:
        self._level = 0.0
        self._at_ms = 0

    def mark(self, count: int, now_ms: int) -> None:
        """So many happened now."""
        self._level = self._decayed(now_ms) + count
        self._at_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """How many a second there were."""
        return self._decayed(now_ms) / RATE_SECONDS

    def _decayed(self, now_ms: int) -> float:
        return self._level * math.exp((self._at_ms - now_ms) / (RATE_SECONDS * 1000))


class Meter:
    """The figures of one stream that a counter does not give."""

    __slots__ = ("latency", "rate_in", "rate_out")

    def __init__(self) -> None:
        self.rate_in = Rate()
        self.rate_out = Rate()
        self.latency = Histogram()
        """From the receipt of an event to its first delivery, in microseconds."""

    def latency_ms(self, percentile: int) -> float | None:
        """A percentile of the latency in milliseconds; None before the first delivery."""
        return self.latency.percentile(percentile) / 1000 if self.latency.count else None

"""How many events were acknowledged lately, for a person who asks."""

from collections import deque
from typing import Final

from edge.clock import Clock

SPAN_SECONDS: Final = 60


class Rate:
    """A count for each of the last sixty seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: deque[tuple[int, int]] = deque()
        self.total = 0

    def add(self, count: int) -> None:
        """So many more, now."""
        if not count:
            return
        self.total += count
        now = self._clock.monotonic_ms() // 1000
        if self._counts and self._counts[-1][0] == now:
            count += self._counts.pop()[1]
        self._counts.append((now, count))
        self._forget(now)

    def per_second(self) -> float:
        """The mean over the last minute."""
        self._forget(self._clock.monotonic_ms() // 1000)
        return sum(count for _, count in self._counts) / SPAN_SECONDS

    def _forget(self, now: int) -> None:
        while self._counts and self._counts[0][0] <= now - SPAN_SECONDS:
            self._counts.popleft()

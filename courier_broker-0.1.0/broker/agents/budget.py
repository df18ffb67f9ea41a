"""How often an agent may be called: so many times in any minute. Whoever is over it waits; nothing is lost."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from broker.clock import Clock

MINUTE_MS = 60_000


class Budget:
    """Calls of the last minute.

    Rejected: a token bucket, which lets twice as many through in the minute after a rest.
    """

    def __init__(
        self, calls_per_minute: int, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._calls_max = calls_per_minute
        self._clock = clock
        self._sleep = sleep
        self._calls: deque[int] = deque()
        self._line = asyncio.Lock()

    async def spend(self, on_wait: Callable[[float], None]) -> None:
        """Count one call, once there may be one; `on_wait` is told how many seconds that will take."""
        async with self._line:  # in the order of asking
            while (wait_ms := self._wait_ms()) > 0:
                on_wait(wait_ms / 1000)
                await self._sleep(wait_ms / 1000)
            self._calls.append(self._clock.monotonic_ms())

    def _wait_ms(self) -> int:
        now = self._clock.monotonic_ms()
        while self._calls and now - self._calls[0] >= MINUTE_MS:
            self._calls.popleft()
        return 0 if len(self._calls) < self._calls_max else self._calls[0] + MINUTE_MS - now

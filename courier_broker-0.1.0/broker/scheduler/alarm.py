"""The one timer of the scheduler.

What is due follows the wall clock, and timers follow the monotonic one. So while something is put off, the wall
clock is looked at every few seconds, and one that was set is noticed; while nothing is, there is no timer at all.
Rejected: a `timerfd`, which goes off when the wall clock gets to a time, however it does. Python has it from 3.13 on.
"""

import asyncio

from broker.clock import Clock
from broker.limits import SCHEDULE_RECHECK_SECONDS_MAX

_TICK_SECONDS = 0.001
"""Timers of uvloop go off on whole milliseconds, up to half of one too early."""


class Alarm:
    """Waits for a time of the wall clock. One task may wait; anybody may bring the time forward."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: int | None = None
        self._changed = asyncio.Event()

    @property
    def at(self) -> int | None:
        """The time that is waited for, in microseconds since 1970; None if there is none."""
        return self._at

    def clear(self) -> None:
        """Wait for nothing."""
        self._at = None

    def bring_forward(self, at: int | None) -> None:
        """Wait until this time, if that is earlier."""
        if at is not None and (self._at is None or at < self._at):
            self._at = at
            self._changed.set()

    def look(self) -> None:
        """Look at the clock now."""
        self._changed.set()

    async def wait(self) -> None:
        """Return when the time has come."""
        while self._at is None or self._clock.wall_us() < self._at:
            self._changed.clear()
            timer: asyncio.TimerHandle | None = None
            if self._at is not None:
                left = (self._at - self._clock.wall_us()) / 1e6 + _TICK_SECONDS
                timer = asyncio.get_running_loop().call_later(
                    min(left, SCHEDULE_RECHECK_SECONDS_MAX), self._changed.set
                )
            try:
                await self._changed.wait()
            finally:
                if timer is not None:
                    timer.cancel()

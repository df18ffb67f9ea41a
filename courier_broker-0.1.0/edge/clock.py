"""The time by which rows are scheduled: it never jumps in a run, and is sane across reboots.

A Pi has no clock that runs without power. It boots in 1970, or at the time of its last shutdown, and jumps by years
when it reaches a time server. So the wall clock is read once, when the outbox is opened, and the monotonic clock counts
from there. What the wall clock says is held against the last time that the outbox has noted:

    the wall clock says             the timeline begins                  delays that rows still have to wait
    later than the note             at the wall clock                    shorter by the time that was off
    earlier, and after RELEASED     at the wall clock                    as they were: every row is moved along
    earlier than RELEASED           at the note, or else at RELEASED     as they were

A delay past its cap (a clock that stood in 2099 for a while) is cut to the cap by whoever opens the outbox.
"""

import time
from typing import Final, Protocol

RELEASED_US: Final = 1_767_225_600_000_000
"""2026-01-01: no outbox of this program is older, so that a clock which says so is wrong."""


class Clock(Protocol):
    """The two clocks of the machine."""

    def monotonic_ms(self) -> int:
        """Whole milliseconds since an arbitrary start; never goes back."""

    def wall_us(self) -> int:
        """Whole microseconds since 1970-01-01T00:00:00Z; jumps when somebody sets the clock."""


class SystemClock:
    """The machine's clocks."""

    def monotonic_ms(self) -> int:
        """Whole milliseconds since an arbitrary start; never goes back."""
        return time.monotonic_ns() // 1_000_000

    def wall_us(self) -> int:
        """Whole microseconds since 1970-01-01T00:00:00Z; jumps when somebody sets the clock."""
        return time.time_ns() // 1_000


class Timeline:
    """Microseconds since 1970 as the outbox counts them; `shift_us` is to be added to what it has scheduled."""

    def __init__(self, clock: Clock, noted_us: int) -> None:
        self._clock = clock
        wall_us = clock.wall_us()
        self.shift_us = 0
        if wall_us < RELEASED_US:
            self._base_us = max(noted_us, RELEASED_US)
        else:
            self._base_us = wall_us
            self.shift_us = min(0, wall_us - noted_us)
        self._started_ms = clock.monotonic_ms()

    def now_us(self) -> int:
        """The time now; never less than it was before, in this run."""
        return self._base_us + (self._clock.monotonic_ms() - self._started_ms) * 1_000

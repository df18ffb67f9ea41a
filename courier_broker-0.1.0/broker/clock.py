"""Time, as something that is handed in.

Leases and intervals run on the monotonic clock, which never jumps; records carry the wall clock,
which a person can read. Tests hand in a `ManualClock` and move it themselves.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The two clocks that the broker reads."""

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


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, wall_us: int = 1_771_525_800_000_000, monotonic_ms: int = 0) -> None:
        self._wall_us = wall_us
        self._monotonic_ms = monotonic_ms

    def monotonic_ms(self) -> int:
        """The monotonic time that `advance` has reached."""
        return self._monotonic_ms

    def wall_us(self) -> int:
        """The wall time that `advance` and `set_wall_us` have reached."""
        return self._wall_us

    def advance(self, milliseconds: int) -> None:
        """Let time pass on both clocks. Raise ValueError for a negative amount: time does not go back."""
        if milliseconds < 0:
            raise ValueError(f"time cannot pass backwards: advance({milliseconds})")
        self._monotonic_ms += milliseconds
        self._wall_us += milliseconds * 1_000

    def set_wall_us(self, wall_us: int) -> None:
        """Set the wall clock, as an operator or NTP would; the monotonic clock does not notice."""
        self._wall_us = wall_us

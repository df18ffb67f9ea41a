"""How long to wait before something that failed is tried again (000 §6: exponential, with jitter, up to a cap).

Full jitter: anything from nothing to the step. Half of the fleet that lost one broker would otherwise come back
together. The slow schedule, for events that the broker refused, takes at least half of its step: trying such an event
sooner than that cannot help.
"""

import random
from dataclasses import dataclass

from edge.errors import SettingsInvalid
from edge.limits import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN

_DOUBLINGS_MAX = 40


@dataclass(frozen=True, slots=True)
class Backoff:
    """Steps that double from `base_seconds` up to `cap_seconds`; a delay is at least `floor` of its step."""

    base_seconds: float
    cap_seconds: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not BACKOFF_SECONDS_MIN <= self.base_seconds <= self.cap_seconds <= BACKOFF_SECONDS_MAX:
            raise SettingsInvalid(
                f"a backoff from {self.base_seconds} to {self.cap_seconds} seconds: the first may not be above the "
                f"second, and both are between {BACKOFF_SECONDS_MIN} and {BACKOFF_SECONDS_MAX:.0f}"
            )

    def step_seconds(self, failures: int) -> float:
        """The longest delay after so many failures (the first is 1)."""
        return min(self.cap_seconds, self.base_seconds * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS_MAX))

    def delay_us(self, failures: int, rng: random.Random) -> int:
        """Microseconds to wait after so many failures; at least a millisecond, so that time passes."""
        step = self.step_seconds(failures)
        return max(1_000, int(rng.uniform(self.floor * step, step) * 1_000_000))

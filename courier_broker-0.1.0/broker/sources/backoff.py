"""When a source that failed is tried again: steps that double up to a cap, with jitter.

At least half of a step is waited: a server that is down costs next to nothing then, and those that lost it together
still come back apart.
"""

import random

from broker.limits import SOURCE_BACKOFF_MS_FIRST

_DOUBLINGS_MAX = 40


def delay_seconds(failures: int, cap_ms: int, rng: random.Random) -> float:
    """Seconds to wait after so many failures in a row (the first is 1)."""
    first_ms = min(SOURCE_BACKOFF_MS_FIRST, cap_ms)
    step_ms = min(float(cap_ms), first_ms * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS_MAX))
    return rng.uniform(0.5, 1.0) * step_ms / 1000


def jittered_seconds(interval_ms: int, rng: random.Random) -> float:
    """An interval, give or take a tenth, so that what started together does not stay together."""
    return rng.uniform(0.9, 1.1) * interval_ms / 1000

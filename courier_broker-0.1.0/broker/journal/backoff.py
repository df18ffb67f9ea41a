"""How long to wait before a batch is tried again (002, "Ingest retry").

attempt 1      at once
attempts 2–5   full jitter below 100 ms, doubled each time, at most 5 s
after that     5 s and a jitter; the health signal is critical from here on
"""

import random
from typing import Final

BASE_SECONDS: Final = 0.1
CAP_SECONDS: Final = 5.0
ATTEMPTS_IN_BUDGET: Final = 5


def delay_before(attempt: int, rng: random.Random) -> float:
    """Seconds to wait before the attempt with this number (the first is 1)."""
    if attempt <= 1:
        return 0.0
    if attempt <= ATTEMPTS_IN_BUDGET:
        return rng.uniform(0.0, min(CAP_SECONDS, BASE_SECONDS * 2 ** (attempt - 2)))
    return CAP_SECONDS + rng.uniform(0.0, BASE_SECONDS)


def past_budget(attempt: int) -> bool:
    """Whether so many attempts have failed that an operator must be told."""
    return attempt > ATTEMPTS_IN_BUDGET

"""How often a call is tried again, and when: as the server asks with `Retry-After`, else twice as long each time."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from broker.limits import (
    OUTGOING_BACKOFF_SECONDS_MAX,
    OUTGOING_BACKOFF_SECONDS_MIN,
    OUTGOING_RETRIES_DEFAULT,
    OUTGOING_RETRIES_MAX,
    OUTGOING_RETRY_AFTER_SECONDS_MAX,
)

RETRIED = frozenset({408, 429, *range(500, 600)})
"""The statuses after which the same request may succeed."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How patient a caller is."""

    count: int = OUTGOING_RETRIES_DEFAULT
    backoff_seconds: float = OUTGOING_BACKOFF_SECONDS_MIN

    def delay(self, tries: int, retry_after: str | None = None) -> float | None:
        """How many seconds to wait after so many tries in vain; None if there is to be no other.

        Half of it is left to chance, or all that failed together would come back together. What the server asks for is
        kept to, within a bound.
        """
        if tries > self.count:
            return None
        asked = seconds_of(retry_after, datetime.now(UTC))
        if asked is not None:
            return min(asked, OUTGOING_RETRY_AFTER_SECONDS_MAX)
        longest = min(self.backoff_seconds * 2.0 ** min(tries - 1, OUTGOING_RETRIES_MAX), OUTGOING_BACKOFF_SECONDS_MAX)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - nobody gains by guessing it


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """What a `Retry-After` asks for, in seconds or as a date; None if it is missing or neither."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())

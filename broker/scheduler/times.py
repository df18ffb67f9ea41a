"""When something is to happen: a delay from now, or a moment."""

import math
from datetime import datetime, timedelta

from broker.errors import InvalidRequest
from broker.limits import SCHEDULE_AHEAD_SECONDS_MAX

When = float | timedelta | datetime
"""Seconds from now, a time from now, or a moment with its zone."""


def moment_us(when: When, now_us: int, name: str = "delay") -> int:
    """The moment in microseconds since 1970; raise InvalidRequest, with its name, for what is none or too far ahead.

    A moment that has passed is taken: what is put off until then is due at once.
    """
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise InvalidRequest(
                f"{name}: {when.isoformat()} has no time zone, so it could mean many moments; "
                "give it one, as in datetime.now(UTC) or datetime(…, tzinfo=ZoneInfo('Europe/Berlin'))"
            )
        moment = round(when.timestamp() * 1e6)
    else:
        seconds = when.total_seconds() if isinstance(when, timedelta) else when
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise InvalidRequest(f"{name} must be seconds, a timedelta or a datetime, not {type(when).__name__}")
        if isinstance(seconds, int):
            seconds = min(seconds, 2 * SCHEDULE_AHEAD_SECONDS_MAX)  # it may be past what a float holds
        if seconds < 0 or not math.isfinite(seconds):
            raise InvalidRequest(f"{name} must be 0 seconds or more, not {seconds}")
        moment = now_us + round(min(seconds, 2.0 * SCHEDULE_AHEAD_SECONDS_MAX) * 1e6)
    if moment > now_us + SCHEDULE_AHEAD_SECONDS_MAX * 1_000_000:
        raise InvalidRequest(f"{name}: at most {SCHEDULE_AHEAD_SECONDS_MAX} seconds ahead, which are 100 years")
    return max(moment, 0)

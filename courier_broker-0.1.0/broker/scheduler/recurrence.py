"""When something happens that recurs: a cron expression in a time zone, or an interval.

Around a change to or from daylight-saving time, cron expressions do what the cron of Debian does: what is to run at a
fixed time that is left out runs right after the gap, and what is to run at one that comes twice runs the first time;
with `*` for the hour or the minute it runs as real time passes. Intervals are real time.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from broker.errors import InvalidRequest
from broker.limits import (
    RECURRING_CRON_BYTES_MAX,
    RECURRING_EVERY_MS_MAX,
    RECURRING_EVERY_MS_MIN,
    RECURRING_MISSED_SECONDS,
    RECURRING_RUNS_MISSED_MAX,
)

Missed = Literal["skip", "once", "all"]


class Recurrence(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What recurs, when, and what becomes of runs that were missed. Times are in microseconds since 1970."""

    contract: str
    stream: str
    source: str
    correlation_id: str | None = None
    content: str
    """A payload, or an envelope without its `id` and `ts`."""
    cron: str | None = None
    tz: str = "UTC"
    every_ms: int | None = None
    start: int = 0
    """From when an interval is counted."""
    missed: Missed = "once"

    def check(self) -> None:
        """Raise InvalidRequest unless it says when it happens."""
        if (self.cron is None) == (self.every_ms is None):
            raise InvalidRequest('say when: either "cron", such as "0 9 * * MON-FRI", or "everyMs"')
        if self.every_ms is not None:
            if not RECURRING_EVERY_MS_MIN <= self.every_ms <= RECURRING_EVERY_MS_MAX:
                raise InvalidRequest(
                    f"everyMs must be from {RECURRING_EVERY_MS_MIN} to {RECURRING_EVERY_MS_MAX}, not {self.every_ms}"
                )
            return
        zone(self.tz)
        cron = self.cron or ""
        if len(cron.encode(errors="replace")) > RECURRING_CRON_BYTES_MAX:
            raise InvalidRequest(f"cron: it has more than {RECURRING_CRON_BYTES_MAX} bytes")
        if len(cron.split()) != 5:
            raise InvalidRequest(
                "cron: it must have five fields: minute, hour, day of the month, month, day of the week; "
                f"{cron[:40]!r} has {len(cron.split())}"
            )
        try:
            CronSim(cron, datetime.now(UTC))
        except CronSimError as error:
            raise InvalidRequest(f"cron: {error} in {cron[:40]!r}") from None

    def next_after(self, after: int) -> int | None:
        """The first time after a time; None if there is none in fifty years."""
        if self.every_ms is not None:
            every = self.every_ms * 1_000
            return self.start + max(1, (after - self.start) // every + 1) * every
        return next(self._times(after), None)

    def _times(self, at: int, *, back: bool = False) -> Iterator[int]:
        """The times of the cron expression from a time on, or back from it."""
        assert self.cron is not None
        begin = datetime.fromtimestamp(at // 1_000_000, UTC)
        if back:
            begin += timedelta(seconds=1)
        local = begin.astimezone(zone(self.tz))
        return (round(each.timestamp()) * 1_000_000 for each in CronSim(self.cron, local, reverse=back))

    def is_missed(self, planned: int, now: int) -> bool:
        """Whether a run comes so late that it counts as missed."""
        return now - planned > RECURRING_MISSED_SECONDS * 1_000_000

    def following(self, planned: int, now: int) -> int | None:
        """The time of the run after one that is due: of those that were missed, as many as are wanted."""
        if self.missed != "all":
            return self.next_after(max(planned, now))
        if self.every_ms is not None:
            oldest = now - RECURRING_RUNS_MISSED_MAX * self.every_ms * 1_000
            return self.next_after(max(planned, oldest))
        following = self.next_after(planned)
        if following is None or now - following < RECURRING_RUNS_MISSED_MAX * 60 * 1_000_000:
            return following  # there cannot be more than one in a minute
        oldest = following
        for count, each in enumerate(self._times(now, back=True), start=1):
            if each <= following:
                return following
            oldest = each
            if count == RECURRING_RUNS_MISSED_MAX:
                break
        return oldest


def zone(name: str) -> tzinfo:
    """The time zone of this name; raise InvalidRequest for one that is not known here."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except Exception:  # noqa: BLE001 - a name may also be a path, a directory, or empty
        raise InvalidRequest(
            f"tz: {name[:40]!r} is not a time zone that is known here; zones are called like Europe/Berlin, "
            "and their table is in the package tzdata"
        ) from None

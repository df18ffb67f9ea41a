"""Times as the contracts write them: RFC 3339, in UTC."""

from datetime import UTC, datetime


def shown_seconds(microseconds: int) -> str:
    """A time of the ledger in whole seconds, as documents 000 and 001 show it: `2026-02-16T23:10:22Z`."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def comparable(time: datetime) -> str | None:
    """An aware time as text that sorts like the time, whatever its zone was; None for one outside the calendar."""
    try:
        return time.astimezone(UTC).isoformat()
    except OverflowError:
        return None

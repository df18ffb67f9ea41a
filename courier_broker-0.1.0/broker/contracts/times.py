"""Times as the contracts write them: RFC 3339, in UTC."""

from datetime import UTC, datetime


def shown_seconds(microseconds: int) -> str:
    """A time of the ledger in whole seconds, as documents 000 and 001 show it: `2026-02-16T23:10:22Z`."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown_microseconds(microseconds: int) -> str:
    """The same to the microsecond, where there is a part of a second: `2026-02-16T23:10:22.5Z`."""
    text = shown_seconds(microseconds)
    part = f"{microseconds % 1_000_000:06d}".rstrip("0")
    return f"{text[:-1]}.{part}Z" if part else text


def comparable(time: datetime) -> str | None:
    """An aware time as text that sorts like the time, whatever its zone was; None for one outside the calendar."""
    try:
        return time.astimezone(UTC).isoformat()
    except OverflowError:
        return None

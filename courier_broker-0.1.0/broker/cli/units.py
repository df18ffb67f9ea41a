"""Figures as people read them."""

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def duration(milliseconds: float | None) -> str:
    """A time that passed, in its largest unit: `0.4 ms`, `12 ms`, `1.5 s`, `3.0 min`; a dash for none."""
    if milliseconds is None:
        return "-"
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds / size:.1f} {unit}"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"


def rate(per_second: float) -> str:
    """Events a second: `0`, `0.4`, `12`, `12,345`."""
    return f"{per_second:,.0f}" if per_second >= 10 or per_second < 0.05 else f"{per_second:.1f}"


def events(count: int) -> str:
    """So many events: `1 event`, `2,000 events`."""
    return f"{count:,} {'event' if count == 1 else 'events'}"


def size(count: int) -> str:
    """Bytes: `512 bytes`, `1.5 KiB`, `20.0 MiB`."""
    if count < 1024:
        return f"{count} bytes"
    amount, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"

"""Ids that nobody has to hand out: 48 bits of time, so that they sort, and 80 of chance, so that they never meet."""

import secrets
from datetime import UTC, datetime
from typing import Final

from edge.clock import Clock

_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH: Final = 26


def new_id(prefix: str, clock: Clock) -> str:
    """`prefix_` and 26 digits, as the documents write them."""
    number = (clock.wall_us() // 1_000 & (1 << 48) - 1) << 80 | secrets.randbits(80)
    digits = [_DIGITS[number >> 5 * place & 31] for place in reversed(range(_LENGTH))]
    return f"{prefix}_{''.join(digits)}"


def timestamp(clock: Clock) -> str:
    """The wall clock as text, to the millisecond."""
    at = datetime.fromtimestamp(clock.wall_us() / 1_000_000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Whether each event was answered once, in order, as new or as a duplicate."""

import re
from collections.abc import Sequence

from bench.failure import BenchmarkFailed
from bench.load.events import ID_DIGITS, event_id

ENQUEUED = re.compile(rb'"id":"(e-\d{%d})","seq":(\d+),"duplicate":(false|true)' % ID_DIGITS)
ACKED = re.compile(rb'"ack":"(e-\d{%d})","seq":(\d+),"duplicate":(false|true)' % ID_DIGITS)


def check_answers(
    pattern: re.Pattern[bytes], numbers: Sequence[int], received: bytes, already: Sequence[int] = ()
) -> None:
    """Raise BenchmarkFailed unless the answers are those to these events, in this order.

    The first answer to a number must say that it is new, unless it was there `already`; every later one that it is a
    duplicate, with the sequence of the first.
    """
    found = pattern.findall(received)
    if len(found) != len(numbers):
        raise BenchmarkFailed(f"{len(numbers)} events were sent, and {len(found)} were answered")
    first_seqs: dict[bytes, bytes] = {event_id(number): b"" for number in already}
    for number, (name, seq, duplicate) in zip(numbers, found, strict=True):
        if name != event_id(number):
            raise BenchmarkFailed(f"{event_id(number)!r} was sent, and at its place {name!r} was answered")
        seen = first_seqs.get(name)
        if (seen is not None) != (duplicate == b"true"):
            raise BenchmarkFailed(f"{name!r} was answered with duplicate: {duplicate.decode()}")
        if seen and seen != seq:
            raise BenchmarkFailed(
                f"{name!r} was answered with sequence {seq.decode()}, and before with {seen.decode()}"
            )
        first_seqs[name] = seq
    distinct = set(first_seqs.values()) - {b""}
    if not already and len(distinct) != len(first_seqs):
        raise BenchmarkFailed(f"{len(first_seqs)} events have {len(distinct)} sequences between them")


def check_count(pattern: re.Pattern[bytes], units: int, received: bytes) -> None:
    """Raise BenchmarkFailed unless there are so many answers: for who answers without saying what."""
    found = len(pattern.findall(received))
    if found != units:
        raise BenchmarkFailed(f"{units} were sent, and {found} were answered")

"""Envelopes of one size, with ids of one length: so every frame is as long as the next, and places are arithmetic."""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

ID_DIGITS = 10
ID_NUMBERS = 10_000_000_000
STREAM = "bench/in"
SIZE_BYTES = 300
_LETTERS = string.ascii_letters + string.digits
_HEAD = b'{"id":"e-'
_AFTER_ID = b'","ts":"2026-02-19T18:14:02Z","to":"%b","type":"reading","payload":"'
_TAIL = b'"}'


@dataclass(frozen=True)
class Shape:
    """What the events of a run look like."""

    stream: str = STREAM
    size: int = SIZE_BYTES

    @property
    def _filling(self) -> bytes:
        """Text that does not compress to nothing, and is the same in every run."""
        room = self.size - len(_HEAD) - ID_DIGITS - len(_AFTER_ID % self.stream.encode()) - len(_TAIL)
        if room < 0:
            raise ValueError(f"an envelope of {self.size} bytes has no room for its own fields; use {self.size - room}")
        return "".join(random.Random(17).choices(_LETTERS, k=room)).encode()

    def envelopes(self, numbers: Sequence[int]) -> list[bytes]:
        """The envelopes of these events, each `size` bytes long."""
        rest = _AFTER_ID % self.stream.encode() + self._filling + _TAIL
        return [b"%b%0*d%b" % (_HEAD, ID_DIGITS, number, rest) for number in numbers]

    def requests(self, numbers: Sequence[int]) -> list[bytes]:
        """The same with the stream that they go to, as Courier takes them."""
        head = b'{"to":"%b","envelope":' % self.stream.encode()
        return [head + envelope + b"}" for envelope in self.envelopes(numbers)]


def event_id(number: int) -> bytes:
    """The id of an event."""
    return b"e-%0*d" % (ID_DIGITS, number)


def number_of(envelope: bytes) -> int:
    """Which event an envelope is."""
    return int(envelope[len(_HEAD) : len(_HEAD) + ID_DIGITS])


def scattered(number: int) -> int:
    """Another number for each, in no order: ids made of these are as hard on an index as random ones."""
    return number * 7_654_321_987 % ID_NUMBERS


def with_duplicates(first: int, count: int, share: float) -> list[int]:
    """So many numbers from `first` on, of which this share repeats an earlier one, at places that chance chose."""
    chance, numbers, fresh = random.Random(first), [], first
    for _ in range(count):
        if fresh > first and chance.random() < share:
            numbers.append(chance.randrange(first, fresh))
        else:
            numbers.append(fresh)
            fresh += 1
    return numbers

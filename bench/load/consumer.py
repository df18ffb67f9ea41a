"""A connection that takes events and answers for them, as many at a time as one read brings.

It keeps what it read and when, and says afterwards which events those were. What the bytes mean is for the protocol to
say: see `Taking`.
"""

import socket
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from bench.failure import BenchmarkFailed
from bench.load.events import number_of
from bench.load.inbox import READ_BYTES, Inbox
from bench.load.lines import Line

SEGMENTS_BYTES = 1 << 25
"""The buffers of all consumers together, before they have read anything."""


class Taking(Protocol):
    """How a protocol delivers and is answered, for one connection."""

    def opening(self) -> bytes:
        """What asks for the first events."""

    def take(self, inbox: Inbox) -> tuple[int, bytes]:
        """How many whole events are new, and what acknowledges them and asks for more; moves `inbox.scanned` behind."""

    def finish(self) -> bytes:
        """What asks whether the server has all acknowledgements; nothing, if it says so by itself."""

    @property
    def finished(self) -> bool:
        """Whether it has them."""

    def envelopes(self, received: bytes, size: int) -> list[bytes]:
        """The envelopes among what was received, in order."""


class Tally:
    """How many events all consumers of a round have taken: asked after every step, so it is not a sum."""

    taken = 0


class Consumer(Line):
    """One consumer. Its events are counted with those of its fellows, and are taken until there are no more."""

    def __init__(self, connection: socket.socket, taking: Taking, fellows: int = 1, received: bytes = b"") -> None:
        super().__init__(connection, Inbox(max(2 * READ_BYTES, min(1 << 22, SEGMENTS_BYTES // fellows))))
        self.inbox.put(received)
        self.taking = taking
        self.taken = 0
        self.tally = Tally()
        self.times: list[tuple[int, float]] = []
        """How many had been taken, and when that was known: a pair for each read that brought some."""
        self._out = taking.opening()
        self._finishing = False

    def look(self) -> None:
        now = time.perf_counter()
        new, answer = self.taking.take(self.inbox)
        if new:
            self.taken += new
            self.tally.taken += new
            self.times.append((self.taken, now))
        if answer:
            self._out += answer
            self.writable()

    def writable(self) -> None:
        while self._out:
            try:
                sent = self.connection.send(self._out)
            except BlockingIOError:
                return
            self._out = self._out[sent:]

    def finish(self) -> bool:
        if self._finishing:
            return False
        self._finishing = True
        self._out += self.taking.finish()
        return True

    @property
    def stuck(self) -> bool:
        return bool(self._out)

    @property
    def done(self) -> bool:
        return not self._out and (self.taking.finished or not self._finishing)

    def envelopes(self, size: int) -> list[bytes]:
        """What it was delivered, in order."""
        return self.taking.envelopes(self.inbox.all(), size)

    def numbers(self, size: int) -> list[int]:
        """The numbers of the events that it was delivered, in order."""
        return [number_of(envelope) for envelope in self.envelopes(size)]


def check_deliveries(sent: Iterable[bytes], consumers: Sequence[Consumer], size: int) -> None:
    """Raise BenchmarkFailed unless the consumers have between them each envelope once, as it was sent."""
    expected = Counter(sent)
    found = Counter(envelope for consumer in consumers for envelope in consumer.envelopes(size))
    if expected == found:
        return
    missing, unknown = expected - found, found - expected
    doubled = sum(1 for envelope in unknown if envelope in expected)
    raise BenchmarkFailed(
        f"of {expected.total()} events, {missing.total()} were not delivered as they were sent; {doubled} came more "
        f"than once, {len(unknown) - doubled} are none that was sent, such as {next(iter(unknown), b'')[:100]!r}"
    )


def shares(consumers: Sequence[Consumer]) -> tuple[float, float]:
    """The smallest and the largest share of a consumer, when 1 is an equal share."""
    taken = [consumer.taken for consumer in consumers]
    equal = sum(taken) / len(taken)
    return min(taken) / equal, max(taken) / equal

"""beanstalkd: put, reserve, delete."""

import re
from collections.abc import Sequence

from bench.failure import BenchmarkFailed
from bench.load.events import Shape
from bench.load.inbox import Inbox
from bench.load.lines import Cargo, marked


def publishing(shape: Shape, numbers: Sequence[int]) -> Cargo:
    """One job for each event."""
    units = [b"put 0 0 120 %d\r\n%b\r\n" % (shape.size, envelope) for envelope in shape.envelopes(numbers)]

    def check(received: bytes) -> None:
        found = re.findall(rb"INSERTED (\d+)\r\n", received)
        if len(found) != len(units) or len(set(found)) != len(units):
            raise BenchmarkFailed(f"of {len(units)} events, beanstalkd took {len(set(found))}: {received[-200:]!r}")

    return Cargo(b"".join(units), len(units[0]), 1, marked(b"INSERTED"), check)


class Worker:
    """A worker: it deletes a job and asks for the next in one write; the protocol knows no more at a time."""

    _RESERVE = b"reserve\r\n"
    _DELETED = b"DELETED\r\n"

    def __init__(self, shape: Shape) -> None:
        self._job = re.compile(rb"RESERVED (\d+) %d\r\n" % shape.size)
        self._size = shape.size
        self._undeleted = 0

    def opening(self) -> bytes:
        return self._RESERVE

    def take(self, inbox: Inbox) -> tuple[int, bytes]:
        new = inbox.new()
        if new.startswith(self._DELETED):
            self._undeleted -= 1
            inbox.scanned += len(self._DELETED)
            new = new[len(self._DELETED) :]
        job = self._job.match(new)
        if job is None or job.end() + self._size + 2 > len(new):
            return 0, b""
        inbox.scanned += job.end() + self._size + 2
        self._undeleted += 1
        return 1, b"delete %b\r\n" % job[1] + self._RESERVE

    def finish(self) -> bytes:
        return b""

    @property
    def finished(self) -> bool:
        """Each delete is answered."""
        return not self._undeleted

    def envelopes(self, received: bytes, size: int) -> list[bytes]:
        return [received[found.end() : found.end() + size] for found in self._job.finditer(received)]

"""Redis Streams: SET NX for the identity and XADD for the event; XREADGROUP, XACK."""

import re
from collections.abc import Sequence

from bench.failure import BenchmarkFailed
from bench.load.events import Shape, event_id
from bench.load.inbox import Inbox
from bench.load.lines import Cargo, marked

GROUP = b"g"
COUNT = 100


def command(*parts: bytes) -> bytes:
    """A command as Redis reads it."""
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def publishing(shape: Shape, numbers: Sequence[int]) -> Cargo:
    """For each event its identity and itself, one behind the other, without waiting for whether it is new."""
    stream = shape.stream.encode()
    units = [
        command(b"SET", event_id(number), b"1", b"NX") + command(b"XADD", stream, b"*", b"e", envelope)
        for number, envelope in zip(numbers, shape.envelopes(numbers), strict=True)
    ]

    def check(received: bytes) -> None:
        found = re.findall(rb"\+OK\r\n\$\d+\r\n(\d+-\d+)\r\n", received)
        if len(found) != len(units) or len(set(found)) != len(units):
            raise BenchmarkFailed(f"of {len(units)} events, Redis took {len(set(found))}: {received[-200:]!r}")

    return Cargo(b"".join(units), len(units[0]), 1, marked(b"-"), check)  # an id has one dash, and +OK none


def make_group(shape: Shape) -> bytes:
    """The stream and its group."""
    return command(b"XGROUP", b"CREATE", shape.stream.encode(), GROUP, b"$", b"MKSTREAM")


class Group:
    """A consumer of the group; each reply is acknowledged as a whole, together with the request for the next."""

    _NOTHING = b"*-1\r\n"

    def __init__(self, shape: Shape, name: bytes) -> None:
        stream = shape.stream.encode()
        self._acknowledge = (b"XACK", stream, GROUP)
        self._read = command(
            b"XREADGROUP", b"GROUP", GROUP, name, b"COUNT", b"%d" % COUNT, b"BLOCK", b"0", b"STREAMS", stream, b">"
        )
        self._head = re.compile(rb"\*1\r\n\*2\r\n\$\d+\r\n%b\r\n\*(\d+)\r\n" % re.escape(stream))
        self._entry = re.compile(rb"\*2\r\n\$\d+\r\n(\d+-\d+)\r\n\*2\r\n\$1\r\ne\r\n\$%d\r\n" % shape.size)
        self._size = shape.size
        self._unconfirmed = 0

    def opening(self) -> bytes:
        return self._read

    def take(self, inbox: Inbox) -> tuple[int, bytes]:
        new = inbox.new()
        if (confirmed := re.match(rb":(\d+)\r\n", new)) is not None:
            self._unconfirmed -= int(confirmed[1])
            inbox.scanned += confirmed.end()
            new = new[confirmed.end() :]
        head = self._head.match(new)
        if head is None:
            return 0, b""
        entries = list(self._entry.finditer(new, head.end()))
        if len(entries) < int(head[1]) or (end := entries[-1].end() + self._size + 2) > len(new):
            return 0, b""
        inbox.scanned += end
        self._unconfirmed += len(entries)
        return len(entries), command(*self._acknowledge, *(entry[1] for entry in entries)) + self._read

    def finish(self) -> bytes:
        return b""

    @property
    def finished(self) -> bool:
        """Each XACK is answered with how many it took."""
        return not self._unconfirmed

    def envelopes(self, received: bytes, size: int) -> list[bytes]:
        return [received[found.end() : found.end() + size] for found in self._entry.finditer(received)]

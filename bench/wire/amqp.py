"""RabbitMQ: AMQP 0-9-1, as far as a durable queue with confirms needs it."""

import struct
from collections.abc import Iterator, Sequence

from bench.failure import BenchmarkFailed
from bench.load.events import Shape, event_id
from bench.load.inbox import Inbox
from bench.load.lines import Cargo

QUEUE = b"bench"
METHOD, HEADER, BODY = 1, 2, 3
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK = ((10, method) for method in (10, 11, 30, 31, 40, 41))
CHANNEL_OPEN, CHANNEL_OPEN_OK, DECLARE, DECLARE_OK = (20, 10), (20, 11), (50, 10), (50, 11)
SELECT, SELECT_OK = (85, 10), (85, 11)
QOS, QOS_OK, CONSUME, PUBLISH, DELIVER, ACK = ((60, method) for method in (10, 11, 20, 40, 60, 80))
HELLO = b"AMQP\x00\x00\x09\x01"
_PERSISTENT, _MESSAGE_ID = 0x1000, 0x0080
_CONFIRM = struct.Struct(">BHIHHQBB")


def _short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def _long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(name: tuple[int, int], arguments: bytes = b"", channel: int = 1) -> bytes:
    """The frame of a method."""
    return _frame(METHOD, channel, struct.pack(">HH", *name) + arguments)


def head(name: tuple[int, int]) -> bytes:
    """How the payload of its frame begins: what an answer is known by."""
    return struct.pack(">HH", *name)


def opening() -> list[tuple[bytes, bytes]]:
    """What is sent to open a connection and its channel, and how the answer to each begins."""
    login = _long(b"") + _short(b"PLAIN") + _long(b"\0guest\0guest") + _short(b"en_US")
    return [
        (HELLO, head(START)),
        (method(START_OK, login, 0), head(TUNE)),
        (
            method(TUNE_OK, struct.pack(">HIH", 2047, 131_072, 0), 0)
            + method(OPEN, _short(b"/") + _short(b"") + b"\0", 0),
            head(OPEN_OK),
        ),
        (method(CHANNEL_OPEN, _short(b"")), head(CHANNEL_OPEN_OK)),
    ]


def declare() -> bytes:
    """A durable quorum queue."""
    kind = _short(b"x-queue-type") + b"S" + _long(b"quorum")
    return method(DECLARE, b"\0\0" + _short(QUEUE) + b"\x02" + _long(kind))


def publishing(shape: Shape, numbers: Sequence[int]) -> Cargo:
    """A persistent message for each event, confirmed."""
    publish = method(PUBLISH, b"\0\0" + _short(b"") + _short(QUEUE) + b"\0")
    units = []
    for number, envelope in zip(numbers, shape.envelopes(numbers), strict=True):
        properties = b"\x02" + _short(event_id(number))
        header = struct.pack(">HHQH", 60, 0, len(envelope), _PERSISTENT | _MESSAGE_ID) + properties
        units.append(publish + _frame(HEADER, 1, header) + _frame(BODY, 1, envelope))
    confirms = Confirms()

    def check(_received: bytes) -> None:
        if confirms.confirmed != len(units):
            raise BenchmarkFailed(f"of {len(units)} events, RabbitMQ confirmed {confirms.confirmed}")

    return Cargo(b"".join(units), len(units[0]), 1, confirms.new, check)


class Confirms:
    """The confirmations of one channel, each of one message or of all up to one; they come in any order."""

    def __init__(self) -> None:
        self._all_up_to = 0
        self._beyond: set[int] = set()

    @property
    def confirmed(self) -> int:
        """How many messages are confirmed."""
        return self._all_up_to + len(self._beyond)

    def new(self, inbox: Inbox) -> int:
        """How many were confirmed since the last call."""
        before, size = self.confirmed, _CONFIRM.size
        whole = (inbox.end - inbox.scanned) // size * size
        for found in _CONFIRM.iter_unpack(bytes(inbox.new()[:whole])):
            *_, group, name, tag, multiple, _end = found
            if (group, name) != ACK:
                raise BenchmarkFailed(f"RabbitMQ did not confirm: method {group}, {name}")
            if multiple:
                self._beyond = {each for each in self._beyond if each > tag}
                self._all_up_to = max(self._all_up_to, tag)
            elif tag > self._all_up_to:
                self._beyond.add(tag)
            while self._all_up_to + 1 in self._beyond:
                self._all_up_to += 1
                self._beyond.discard(self._all_up_to)
        inbox.scanned += whole
        return self.confirmed - before


def frames(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """The whole frames: their kind, their payload, and where each ends."""
    at = 0
    while at + 7 <= len(data):
        kind, _channel, size = struct.unpack_from(">BHI", data, at)
        if at + 8 + size > len(data):
            return
        yield kind, data[at + 7 : at + 7 + size], at + 8 + size
        at += 8 + size


class Channel:
    """A consumer: what one read brings is acknowledged by one frame."""

    _TAG = _short(b"c")

    def __init__(self, prefetch: int) -> None:
        self._qos = method(QOS, struct.pack(">IHB", 0, prefetch, 0))
        self._last_tag = 0
        self._finishing = False
        self.finished = False

    def opening(self) -> bytes:
        return self._qos + method(CONSUME, b"\0\0" + _short(QUEUE) + self._TAG + b"\0" + _long(b""))

    def take(self, inbox: Inbox) -> tuple[int, bytes]:
        count, end, tag = 0, 0, self._last_tag
        for kind, payload, after in frames(inbox.new()):
            if kind == METHOD and payload.startswith(head(DELIVER)):
                tag = int.from_bytes(payload[4 + len(self._TAG) : 12 + len(self._TAG)], "big")
            elif kind == METHOD and payload.startswith(head(QOS_OK)):
                self.finished = self._finishing
                end = after
            elif kind == BODY:
                self._last_tag = tag
                count += 1
                end = after
        inbox.scanned += end
        acknowledged = method(ACK, struct.pack(">QB", self._last_tag, 1)) if count else b""
        return count, acknowledged

    def finish(self) -> bytes:
        """Another request that is answered in its turn, behind the acknowledgements."""
        self._finishing = True
        return self._qos

    def envelopes(self, received: bytes, size: int) -> list[bytes]:
        return [payload for kind, payload, _ in frames(received) if kind == BODY]

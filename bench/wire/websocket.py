"""Frames of a WebSocket client as bytes (RFC 6455): each masked, as a client must, all with one mask."""

import re
import socket
from collections.abc import Sequence
from functools import partial

from bench.failure import BenchmarkFailed
from bench.load.events import Shape
from bench.load.inbox import Inbox
from bench.load.lines import Cargo, marked
from bench.wire.answers import ACKED, check_answers, check_count
from bench.wire.http import connect

MASK = b"\x37\xfa\x21\x3d"
MARKER = b'"ack":'
_MARKERS = re.compile(MARKER)


def open_socket(port: int, path: str) -> tuple[socket.socket, bytes]:
    """A WebSocket after its handshake, and what came behind it already."""
    connection = connect(port)
    key = b"MDEyMzQ1Njc4OWFiY2RlZg=="
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n".encode()
        + b"Sec-WebSocket-Key: %b\r\nSec-WebSocket-Version: 13\r\n\r\n" % key
    )
    received = b""
    while b"\r\n\r\n" not in received:
        got = connection.recv(4096)
        if not got:
            break
        received += got
    head, _, rest = received.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101"):
        connection.close()
        raise BenchmarkFailed(f"{path} did not become a WebSocket: {received.decode(errors='replace')}")
    return connection, rest


def frame(payload: bytes, opcode: int = 1) -> bytes:
    """One masked frame."""
    length = len(payload)
    if length < 126:
        head = bytes((0x80 | opcode, 0x80 | length))
    elif length < 1 << 16:
        head = bytes((0x80 | opcode, 0xFE)) + length.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0xFF)) + length.to_bytes(8, "big")
    mask = (MASK * (length // 4 + 1))[:length]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")
    return head + MASK + masked.to_bytes(length, "big")


def publishing(shape: Shape, numbers: Sequence[int], per_frame: int, *, acked_each: bool = True) -> Cargo:
    """Frames with so many events each; `acked_each` if each event has an answer of its own, else each frame has."""
    bodies = shape.requests(numbers)
    if per_frame == 1:
        frames = [frame(body) for body in bodies]
    else:
        arrays = (bodies[at : at + per_frame] for at in range(0, len(bodies), per_frame))
        frames = [frame(b"[" + b",".join(array) + b"]") for array in arrays]
    check = partial(check_answers, ACKED, numbers) if acked_each else partial(check_count, _MARKERS, len(frames))
    return Cargo(b"".join(frames), len(frames[0]), per_frame, marked(MARKER, 1 if acked_each else per_frame), check)


class Subscription:
    """What a subscriber of the broker sends and receives; everything it takes is acknowledged at once, by sequence."""

    _DELIVERED = re.compile(rb',"attempt":1,"seq":(\d+)\}')
    _PING = frame(b"all", opcode=9)
    _PONG = b"\x8a\x03all"

    def __init__(self, credit: int) -> None:
        self._credit = credit
        self.finished = False

    def opening(self) -> bytes:
        return frame(b'{"credit":%d}' % self._credit)

    def take(self, inbox: Inbox) -> tuple[int, bytes]:
        new = inbox.new()
        seqs = self._DELIVERED.findall(new)
        if self._PONG in new:
            self.finished = True
        if not seqs:
            return 0, b""
        last = b'"seq":%b}' % seqs[-1]
        inbox.scanned += new.rindex(last) + len(last)
        keys = seqs[0] if len(seqs) == 1 else b"[%b]" % b",".join(seqs)
        return len(seqs), frame(b'{"ack":%b}' % keys) + frame(b'{"credit":%d}' % len(seqs))

    def finish(self) -> bytes:
        """A ping: it is answered when all frames before it were obeyed."""
        return self._PING

    def envelopes(self, received: bytes, size: int) -> list[bytes]:
        return [received[found.start() - size : found.start()] for found in self._DELIVERED.finditer(received)]

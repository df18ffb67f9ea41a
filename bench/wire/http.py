"""Requests of `POST /v1/enqueue` on connections that stay open, one event each or many as lines."""

import re
import socket
from collections.abc import Sequence
from functools import partial

from bench.failure import BenchmarkFailed
from bench.load.events import Shape
from bench.load.lines import Cargo, marked
from bench.wire.answers import ENQUEUED, check_answers

_STATUS = re.compile(rb"HTTP/1\.1 (\d+) ")
_HEAD = b"POST /v1/enqueue HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
MARKER = b'"duplicate":'


def connect(port: int) -> socket.socket:
    """A connection to this machine that sends at once."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def request(body: bytes, content_type: bytes = b"application/json") -> bytes:
    """A whole request."""
    return _HEAD % (content_type, len(body)) + body


def one_each(shape: Shape, numbers: Sequence[int]) -> Cargo:
    """One event in each request."""
    requests = [request(body) for body in shape.requests(numbers)]
    return Cargo(b"".join(requests), len(requests[0]), 1, marked(MARKER), partial(_check, numbers, len(requests)))


def many_each(shape: Shape, numbers: Sequence[int], lines: int) -> Cargo:
    """So many events in each request, one a line."""
    bodies = shape.requests(numbers)
    requests = [
        request(b"\n".join(bodies[at : at + lines]), b"application/x-ndjson") for at in range(0, len(bodies), lines)
    ]
    return Cargo(b"".join(requests), len(requests[0]), lines, marked(MARKER), partial(_check, numbers, len(requests)))


def _check(numbers: Sequence[int], requests: int, received: bytes) -> None:
    statuses = _STATUS.findall(received)
    if len(statuses) != requests or set(statuses) != {b"200"}:
        raise BenchmarkFailed(f"{requests} requests were answered with {len(statuses)} statuses: {set(statuses)}")
    check_answers(ENQUEUED, numbers, received)

"""What is delivered is counted only if it is what was sent, once: a server that does otherwise fails the run."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.failure import BenchmarkFailed
from bench.load.consumer import Consumer, check_deliveries, shares
from bench.load.drive import drive
from bench.load.events import Shape
from bench.wire import amqp, beanstalk, nats, redis, websocket
from broker.deliveries.framing import text_frame_head
from tests.bench.dishonest import upgrade

SHAPE = Shape()
NUMBERS = range(1, 31)
SENT = SHAPE.envelopes(NUMBERS)
ALL_OBEYED = b"\x8a\x03all"


def delivery(envelope: bytes, seq: int, attempt: int = 1) -> bytes:
    text = b'{"deliver":%b,"attempt":%d,"seq":%d}' % (envelope, attempt, seq)
    return text_frame_head(len(text)) + text


def deliveries(envelopes: list[bytes]) -> bytes:
    return b"".join(delivery(envelope, seq) for seq, envelope in enumerate(envelopes, start=1))


@contextmanager
def delivering(frames: bytes, piece_bytes: int = 1_000) -> Iterator[int]:
    """The port of a server that sends these frames, in pieces that cut them anywhere, and answers a ping."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            upgrade(connection)
            for at in range(0, len(frames), piece_bytes):
                connection.sendall(frames[at : at + piece_bytes])
            connection.sendall(ALL_OBEYED)
            while connection.recv(1 << 16):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()
        thread.join()


def consume(frames: bytes, stall_seconds: float = 10.0, piece_bytes: int = 1_000) -> Consumer:
    with delivering(frames, piece_bytes) as port:
        connection, received = websocket.open_socket(port, "/v1/subscribe?stream=bench/in")
        consumer = Consumer(connection, websocket.Subscription(credit=10), received=received)
        try:
            drive([consumer], lambda: consumer.taken >= len(NUMBERS), stall_seconds=stall_seconds)
        finally:
            consumer.close()
    check_deliveries(SENT, [consumer], SHAPE.size)
    return consumer


@pytest.mark.parametrize("piece_bytes", [7, 331, 1_000, 100_000])
def test_each_delivery_is_counted_once_wherever_the_stream_is_cut(piece_bytes: int) -> None:
    consumer = consume(deliveries(SENT), piece_bytes=piece_bytes)
    assert consumer.taken == len(NUMBERS)
    assert consumer.numbers(SHAPE.size) == list(NUMBERS)
    assert consumer.times[-1][0] == len(NUMBERS)


def test_a_delivery_that_is_dropped_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="nothing came"):
        consume(deliveries(SENT[:-1]), stall_seconds=0.2)


def test_a_delivery_that_comes_twice_in_place_of_another_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="of 30 events, 1 were not delivered as they were sent; 1 came more than"):
        consume(deliveries([*SENT[:-1], SENT[0]]))


def test_an_envelope_that_is_altered_by_one_byte_fails_the_run() -> None:
    altered = bytearray(SENT[3])
    altered[200] ^= 1
    with pytest.raises(BenchmarkFailed, match="1 were not delivered as they were sent; 0 came more than once, 1 are"):
        consume(deliveries([*SENT[:3], bytes(altered), *SENT[4:]]))


def test_a_second_attempt_is_not_counted_as_a_delivery() -> None:
    with pytest.raises(BenchmarkFailed, match="nothing came"):
        consume(deliveries(SENT[:-1]) + delivery(SENT[-1], 30, attempt=2), stall_seconds=0.2)


def test_shares_say_how_far_the_least_and_the_most_are_from_equal() -> None:
    class Taken:
        def __init__(self, taken: int) -> None:
            self.taken = taken

    assert shares([Taken(90), Taken(110), Taken(100)]) == (0.9, 1.1)  # type: ignore[list-item]


# The peers: what their servers say, as it was recorded from them, cut at every byte.

MESSAGE = b"HMSG bench.in 1 $JS.ACK.BENCH.C.1.%d.%d.1.0 39 339\r\nNATS/1.0\r\nNats-Msg-Id: e-%010d\r\n\r\n%b\r\n"
ENTRY = b"*2\r\n$15\r\n1700000000000-%d\r\n*2\r\n$1\r\ne\r\n$300\r\n%b\r\n"


def amqp_delivery(tag: int, envelope: bytes) -> bytes:
    arguments = b"\x01c" + tag.to_bytes(8, "big") + b"\0\0\x05bench"
    header = b"\x00\x3c\x00\x00" + len(envelope).to_bytes(8, "big") + b"\x10\x00\x02"
    frames = [(1, amqp.head(amqp.DELIVER) + arguments), (2, header), (3, envelope)]
    return b"".join(bytes((kind, 0, 1)) + len(body).to_bytes(4, "big") + body + b"\xce" for kind, body in frames)


REPLIES = {
    "redis": (
        lambda: redis.Group(SHAPE, b"c"),
        b"*1\r\n*2\r\n$8\r\nbench/in\r\n*3\r\n" + b"".join(ENTRY % (n, SENT[n]) for n in range(3)),
        b"XACK",
    ),
    "nats": (
        lambda: nats.Pull(SHAPE, b"_INBOX.000001"),
        b"".join(MESSAGE % (n, n, n, SENT[n]) for n in range(3)),
        b"+ACK",
    ),
    "beanstalkd": (lambda: beanstalk.Worker(SHAPE), b"RESERVED 7 300\r\n%b\r\n" % SENT[0], b"delete 7"),
    "amqp": (
        lambda: amqp.Channel(10),
        b"".join(amqp_delivery(n + 1, SENT[n]) for n in range(3)),
        amqp.head(amqp.ACK) + b"\0\0\0\0\0\0\0\x03",
    ),
}


@pytest.mark.parametrize("peer", REPLIES)
@pytest.mark.parametrize("piece_bytes", [1, 100, 10_000])
def test_what_a_peer_delivers_is_counted_once_wherever_it_is_cut(peer: str, piece_bytes: int) -> None:
    make, reply, answered = REPLIES[peer]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        consumer = Consumer(ours, make())
        consumer.writable()
        for at in range(0, len(reply), piece_bytes):
            theirs.sendall(reply[at : at + piece_bytes])
            consumer.readable()
        expected = SENT[:1] if peer == "beanstalkd" else SENT[:3]
        assert consumer.envelopes(SHAPE.size) == expected
        assert consumer.taken == len(expected)
        assert answered in theirs.recv(1 << 16)

"""NATS JetStream: messages with an id, their acknowledgements; pulls of a shared consumer, and acks."""

import re
from collections.abc import Sequence

from bench.failure import BenchmarkFailed
from bench.load.events import Shape, event_id
from bench.load.inbox import Inbox
from bench.load.lines import Cargo, marked

SUBJECT, STREAM, CONSUMER = b"bench.in", b"BENCH", b"C"
HELLO = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
FETCH = 100


def publish(subject: bytes, body: bytes, reply: bytes = b"") -> bytes:
    """A message without headers."""
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)


def setting_up(inbox: bytes) -> list[tuple[bytes, bytes]]:
    """What makes the stream in files, and the consumer that all share; and how the answer to each is known."""
    stream = b'{"name":"%b","subjects":["%b"],"storage":"file"}' % (STREAM, SUBJECT)
    consumer = (
        b'{"stream_name":"%b","config":{"durable_name":"%b","ack_policy":"explicit","max_ack_pending":100000}}'
        % (STREAM, CONSUMER)
    )
    return [
        (publish(b"$JS.API.STREAM.CREATE." + STREAM, stream, inbox), b"stream_create_response"),
        (
            publish(b"$JS.API.CONSUMER.DURABLE.CREATE.%b.%b" % (STREAM, CONSUMER), consumer, inbox),
            b"consumer_create_response",
        ),
    ]


def subscribe(inbox: bytes) -> bytes:
    """Answers come to the inbox of the connection, which is nobody else's."""
    return b"SUB %b 1\r\n" % inbox


def publishing(shape: Shape, numbers: Sequence[int], inbox: bytes) -> Cargo:
    """One message for each event, with its id in a header, and a reply that says that it is kept."""
    units = []
    for number, envelope in zip(numbers, shape.envelopes(numbers), strict=True):
        head = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % event_id(number)
        sizes = (len(head), len(head) + len(envelope))
        units.append(b"HPUB %b %b %d %d\r\n%b%b\r\n" % (SUBJECT, inbox, *sizes, head, envelope))

    def check(received: bytes) -> None:
        found = re.findall(rb'\{"stream":"BENCH", ?"seq":(\d+)\}', received)
        if len(found) != len(units) or len(set(found)) != len(units):
            raise BenchmarkFailed(f"of {len(units)} events, JetStream took {len(set(found))}: {received[-200:]!r}")

    return Cargo(b"".join(units), len(units[0]), 1, marked(b'"seq":'), check)


class Pull:
    """A connection that pulls from the shared consumer; it asks for as many more as it acknowledges."""

    def __init__(self, shape: Shape, inbox: bytes) -> None:
        self._size = shape.size
        self._inbox = inbox
        self._message = re.compile(rb"HMSG %b 1 (\$JS\.ACK\.\S+) (\d+) (\d+)\r\n" % re.escape(SUBJECT))
        self.finished = False

    def _fetch(self, count: int) -> bytes:
        body = b'{"batch":%d,"expires":60000000000}' % count
        return publish(b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % (STREAM, CONSUMER), body, self._inbox)

    def opening(self) -> bytes:
        return subscribe(self._inbox) + self._fetch(FETCH)

    def take(self, inbox: Inbox) -> tuple[int, bytes]:
        new = inbox.new()
        if b"PONG\r\n" in new:
            self.finished = True
        whole = [found for found in self._message.finditer(new) if found.end() + int(found[3]) + 2 <= len(new)]
        if not whole:
            return 0, b""
        inbox.scanned += whole[-1].end() + int(whole[-1][3]) + 2
        acks = b"".join(b"PUB %b 4\r\n+ACK\r\n" % found[1] for found in whole)
        return len(whole), acks + self._fetch(len(whole))

    def finish(self) -> bytes:
        """It is answered when all before it was read."""
        return b"PING\r\n"

    def envelopes(self, received: bytes, size: int) -> list[bytes]:
        ends = [found.end() + int(found[3]) for found in self._message.finditer(received)]
        return [received[end - size : end] for end in ends]

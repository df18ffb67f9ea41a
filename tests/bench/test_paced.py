"""A rate that does not wait: what is late is late from when it was due."""

import socket
import threading
import time

import pytest

from bench.load.consumer import Consumer
from bench.load.events import Shape
from bench.load.paced import PacedProducer, latencies, percentile, run_paced
from bench.wire import websocket
from tests.bench.test_deliveries import ALL_OBEYED, delivery
from tests.bench.test_publish import ack

SHAPE = Shape()
RATE, EVENTS, STALL_AT, STALL_SECONDS = 1_000.0, 300, 100, 0.15


def test_a_server_that_stalls_is_charged_for_every_event_that_was_due_meanwhile() -> None:
    """A load that waits for answers would see one slow event; here all that were due in the stall are late."""
    cargo = websocket.publishing(SHAPE, range(EVENTS), 1)
    ours, theirs = socket.socketpair()
    out, takes = socket.socketpair()
    arrived: list[float] = []
    stalled = threading.Event()

    def serve() -> None:
        for number, envelope in enumerate(SHAPE.envelopes(range(EVENTS))):
            left = cargo.unit_bytes
            while left:
                left -= len(theirs.recv(left))
            arrived.append(time.perf_counter())
            if number == STALL_AT:
                stalled.wait(STALL_SECONDS)
            theirs.sendall(ack(number, seq=number + 1))
            out.sendall(delivery(envelope, number + 1))
        out.sendall(ALL_OBEYED)

    thread = threading.Thread(target=serve)
    thread.start()
    with ours, theirs, out, takes:
        producer = PacedProducer(ours, cargo, window=10**9)
        consumer = Consumer(takes, websocket.Subscription(10))
        start = run_paced([producer], [consumer], RATE)
        thread.join()
        found = latencies([consumer], start, RATE, 0, SHAPE.size)
    assert len(found) == EVENTS
    late = [each for each in found if each > STALL_SECONDS / 2]
    assert len(late) >= STALL_SECONDS / 2 * RATE * 0.9
    assert found == sorted(found)
    assert arrived[-1] - start >= (EVENTS - 1) / RATE


def test_nothing_is_sent_before_it_is_due() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        cargo = websocket.publishing(SHAPE, range(10), 1)
        producer = PacedProducer(ours, cargo, window=10**9)
        producer.writable()
        assert producer.sent_bytes == 0
        producer.due_units = 3
        producer.writable()
        assert producer.sent_bytes == 3 * cargo.unit_bytes
        assert not producer.stuck


@pytest.mark.parametrize(
    ("percent", "expected"), [(50.0, 50.0), (95.0, 95.0), (99.0, 99.0), (100.0, 100.0), (0.0, 1.0), (99.5, 100.0)]
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_pass(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 101)], percent) == expected


def test_percentiles_of_few_values() -> None:
    assert percentile([7.0], 50.0) == percentile([7.0], 99.0) == 7.0
    assert percentile([1.0, 2.0, 3.0], 50.0) == 2.0
    with pytest.raises(ValueError, match="no percentile of nothing"):
        percentile([], 50.0)

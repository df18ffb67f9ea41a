"""What is sent is counted as acknowledged only if it was: a server that drops, doubles or mixes up fails the run."""

import math
import socket
from contextlib import closing
from itertools import pairwise

import pytest

from bench.failure import BenchmarkFailed
from bench.load.drive import drive
from bench.load.events import ID_DIGITS, ID_NUMBERS, Shape, event_id, number_of, scattered, with_duplicates
from bench.load.lines import Cargo, Producer
from bench.wire import http, websocket
from tests.bench.dishonest import Answer, plain, server, upgrade

EVENTS = 50
SHAPE = Shape()
NUMBERS = range(1, EVENTS + 1)


def ack(number: int, seq: int | None = None, duplicate: bool = False) -> bytes:
    text = b'{"ack":"e-%010d","seq":%d,"duplicate":%b}' % (number, seq or number, b"true" if duplicate else b"false")
    return bytes((0x81, len(text))) + text


def publish(answer: Answer, cargo: Cargo | None = None, window: int = 10, stall_seconds: float = 10.0) -> None:
    cargo = cargo or websocket.publishing(SHAPE, NUMBERS, 1)
    with server(cargo.unit_bytes, len(cargo.out) // cargo.unit_bytes, answer, upgrade) as port:
        connection, received = websocket.open_socket(port, "/v1/publish")
        producer = Producer(connection, cargo, window, received)
        try:
            drive([producer], stall_seconds=stall_seconds)
            producer.check()
        finally:
            producer.close()


def test_a_server_that_answers_every_event_passes() -> None:
    publish(lambda unit: ack(unit + 1))


def test_a_server_that_drops_one_answer_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match=r"nothing came for 1 s, and 1 of 1 connections still wait.*e-0000000050"):
        publish(lambda unit: b"" if unit == 20 else ack(unit + 1), stall_seconds=1.0)


def test_an_answer_that_comes_twice_in_place_of_another_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match=r"e-0000000021.*was sent, and at its place.*e-0000000020"):
        publish(lambda unit: ack(unit if unit == 20 else unit + 1))


def test_an_answer_too_many_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="50 events were sent, and 51 were answered"):
        publish(lambda unit: ack(unit + 1) + (ack(unit + 1) if unit == EVENTS - 1 else b""))


def test_a_new_event_that_is_called_a_duplicate_fails_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match=r"e-0000000005.*duplicate: true"):
        publish(lambda unit: ack(unit + 1, duplicate=unit == 4))


def test_two_events_with_one_sequence_fail_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="50 events have 49 sequences"):
        publish(lambda unit: ack(unit + 1, seq=min(unit + 1, EVENTS - 1)))


def test_a_duplicate_must_have_the_sequence_of_its_original() -> None:
    cargo = websocket.publishing(SHAPE, [1, 2, 1], 1)
    publish(lambda unit: ack((1, 2, 1)[unit], duplicate=unit == 2), cargo)
    with pytest.raises(BenchmarkFailed, match=r"e-0000000001.*sequence 9, and before with 1"):
        publish(lambda unit: ack((1, 2, 1)[unit], seq=(1, 2, 9)[unit], duplicate=unit == 2), cargo)


def test_a_connection_that_is_closed_fails_the_run() -> None:
    cargo = websocket.publishing(SHAPE, NUMBERS, 1)
    with server(cargo.unit_bytes, 3, lambda unit: ack(unit + 1), upgrade) as port:
        connection, received = websocket.open_socket(port, "/v1/publish")
        with closing(Producer(connection, cargo, 1, received)) as producer:
            connection.shutdown(socket.SHUT_WR)
            with pytest.raises((BenchmarkFailed, BrokenPipeError)):
                drive([producer])


def test_what_does_not_become_a_websocket_is_said() -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")

    with server(1, 0, lambda _unit: b"", refuse) as port, pytest.raises(BenchmarkFailed, match="404 Not Found"):
        websocket.open_socket(port, "/v1/publish")


def response(number: int, status: bytes = b"200 OK") -> bytes:
    body = b'{"id":"e-%010d","seq":%d,"duplicate":false}' % (number, number)
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def test_an_http_status_other_than_200_fails_the_run() -> None:
    cargo = http.one_each(SHAPE, NUMBERS)
    with (
        server(cargo.unit_bytes, EVENTS, lambda unit: response(unit + 1, b"503 No"), plain) as port,
        closing(Producer(http.connect(port), cargo, 1)) as producer,
    ):
        drive([producer])
        with pytest.raises(BenchmarkFailed, match="503"):
            producer.check()


def test_no_more_than_the_window_is_unanswered() -> None:
    """The server answers nothing before it has a whole window, and then would see one event more."""
    cargo = websocket.publishing(SHAPE, NUMBERS, 1)
    seen: list[int] = []

    def answer(unit: int) -> bytes:
        seen.append(unit)
        return b"" if (unit + 1) % 10 else b"".join(ack(number + 1) for number in range(unit - 9, unit + 1))

    publish(answer, cargo, window=10)
    assert len(seen) == EVENTS
    with pytest.raises(BenchmarkFailed, match="nothing came"):
        publish(answer, cargo, window=9, stall_seconds=0.2)


@pytest.mark.parametrize("size", [125, 300, 70_000])
def test_a_frame_is_what_the_standard_says(size: int) -> None:
    payload = b"x" * size
    framed = websocket.frame(payload)
    length_bytes = {125: 0, 300: 2, 70_000: 8}[size]
    head, mask, masked = framed[:2], framed[2 + length_bytes : 6 + length_bytes], framed[6 + length_bytes :]
    assert head[0] == 0x81
    assert head[1] & 0x80
    assert bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked)) == payload


def test_every_unit_of_a_cargo_is_as_long_as_the_next() -> None:
    cargo = websocket.publishing(SHAPE, range(1, 101), 10)
    assert len(cargo.out) == 10 * cargo.unit_bytes
    assert all(cargo.out[at] == 0x81 for at in range(0, len(cargo.out), cargo.unit_bytes))
    assert cargo.events == 100


@pytest.mark.parametrize("size", [300, 2_048, 65_536])
def test_an_envelope_has_the_size_that_was_asked_for(size: int) -> None:
    (envelope,) = Shape(size=size).envelopes([7])
    assert len(envelope) == size
    with pytest.raises(ValueError, match="an envelope of 60 bytes has no room"):
        Shape(size=60).envelopes([7])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_so_many_are_duplicates_as_were_asked_for(share: float) -> None:
    numbers = with_duplicates(100, 10_000, share)
    repeated = len(numbers) - len(set(numbers))
    assert abs(repeated / len(numbers) - share) < 0.02
    assert numbers == with_duplicates(100, 10_000, share)
    assert min(numbers) == 100


def test_scattered_numbers_are_others_for_each_event_and_in_no_order() -> None:
    numbers = [scattered(number) for number in range(100_000)]
    assert len(set(numbers)) == len(numbers)
    assert math.gcd(scattered(1), ID_NUMBERS) == 1, "or some would meet, further on"
    rising = sum(later > earlier for earlier, later in pairwise(numbers))
    assert 0.1 < rising / len(numbers) < 0.9
    assert {len(event_id(number)) for number in numbers} == {ID_DIGITS + 2}


def test_an_envelope_tells_its_number() -> None:
    assert [number_of(envelope) for envelope in SHAPE.envelopes([0, 7, ID_NUMBERS - 1])] == [0, 7, ID_NUMBERS - 1]

"""Input is cut into lines, whatever the pieces it comes in; an envelope is brought onto one."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.embedded.lines import LineCutter, on_one_line
from broker.errors import TooLarge
from tests.support.events import AWKWARD_PAYLOADS, raw_envelope

FIXED = settings(derandomize=True, database=None, deadline=None, max_examples=300)
LIMIT = 8


def cut(pieces: list[bytes]) -> list[tuple[int, bytes | type]]:
    cutter = LineCutter(LIMIT)
    found = [line for piece in pieces for line in cutter.feed(piece)] + list(cutter.end())
    return [(number, TooLarge if isinstance(line, TooLarge) else line) for number, line in found]


@FIXED
@given(st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\x00", b"\n")), max_size=8))
def test_lines_do_not_depend_on_the_pieces_that_they_come_in(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = [
        (number, TooLarge if len(line) > LIMIT else line)
        for number, line in enumerate(whole.split(b"\n"), start=1)
        if line.strip() or len(line) > LIMIT
    ]
    assert cut(pieces) == cut([whole]) == expected


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
def test_a_line_up_to_the_bound_is_taken(size: int) -> None:
    assert cut([b"x" * size + b"\n"]) == [(1, b"x" * size)]


def test_a_line_past_the_bound_is_reported_once_and_the_next_one_is_taken() -> None:
    pieces = [b"x" * LIMIT, b"x", b"x" * 100, b"x\nnext\n", b"last"]
    assert cut(pieces) == [(1, TooLarge), (2, b"next"), (3, b"last")]


def test_a_line_that_is_too_long_is_not_kept_in_memory() -> None:
    cutter = LineCutter(LIMIT)
    for _ in range(1_000):
        list(cutter.feed(b"x" * 100))
    assert len(cutter._rest) == 0


@pytest.mark.parametrize("payload", [*AWKWARD_PAYLOADS, b'{\n"a"\r\n:\r1}', '"\u2028\\\\\u2029"'.encode()])
def test_an_envelope_on_one_line_says_the_same(payload: bytes) -> None:
    raw = raw_envelope(payload=payload)
    line = on_one_line(raw)
    assert len(line.decode().split("\n")) == len(line.decode().split("\r")) == 1
    assert not {"\u2028", "\u2029"} & set(line.decode())
    assert json.loads(line) == json.loads(raw)


def test_an_envelope_without_line_breaks_stays_the_same_bytes() -> None:
    raw = raw_envelope(payload=AWKWARD_PAYLOADS[0])
    assert on_one_line(raw) is raw

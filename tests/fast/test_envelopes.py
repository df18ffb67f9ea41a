"""Envelopes without a request around them are read as the contract reads them, by themselves and by the thousand."""

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from tests.fast import request_model as model
from tests.fast.test_requests import PIECES, PLAIN, READER, SMALL, new_reader

JEN = "agents/Jen/inbox"
FULL = PLAIN[PLAIN.index(b'{"id"') : -1]
SHORT = SMALL[SMALL.index(b'{"id"') : -1]
SPACED = b" \t\r\n" + SHORT.replace(b",", b" , ") + b"\n "


def other(event_id: str, stream: str = "s") -> tuple[str, bytes]:
    return stream, SHORT.replace(b'"id":"e"', b'"id":"%b"' % event_id.encode()).replace(
        b'"s"', b'"%b"' % stream.encode()
    )


@pytest.mark.parametrize(("to", "raw"), [("s", SHORT), ("s", SPACED), (JEN, FULL)])
def test_a_plain_envelope_is_read_as_the_contract_reads_it_and_is_kept_as_it_is(to: str, raw: bytes) -> None:
    event = READER.read_envelope(to, raw, 7)
    assert event == model.read_envelope(to, raw, 7) is not None
    assert type(event) is InboundEvent
    assert event.envelope is raw
    assert not gc.is_tracked(event)
    assert courier.parse_bare(to, raw, 7) == event


@pytest.mark.parametrize(
    ("to", "raw"),
    [
        ("t", SHORT), ("", SHORT), ("s", b""), ("s", b" "), ("s", b"[]"), ("s", b"{}"), ("s", SHORT[:-1]),
        ("s", SHORT + b"x"),
        ("s", b"[%b]" % SHORT), ("s\u00e9", SHORT), ("\ud800", SHORT), ("s", SHORT.replace(b'"e"', b'"\\u0065"')),
        ("s", SHORT.replace(b":1}", b':"\xff"}')), ("s", SHORT.replace(b":1}", b':1,"id":"f"}')),
        ("a//b", SHORT.replace(b'"s"', b'"a//b"')),
    ],
)  # fmt: skip
def test_what_is_not_plain_or_is_wrong_is_left_to_the_parser(to: str, raw: bytes) -> None:
    assert READER.read_envelope(to, raw, 1) is None
    assert READER.read_pairs([("s", SHORT), (to, raw)], 1) is None


class Text(str):
    __slots__ = ()


class Bytes(bytes):
    __slots__ = ()


@pytest.mark.parametrize(
    "pair", [None, (), ("s",), ("s", SHORT, 1), ["s", SHORT], (b"s", SHORT), ("s", SHORT.decode()), ("s", None),
             ("s", {"id": "e"}), (Text("s"), SHORT), ("s", Bytes(SHORT)), ("s", bytearray(SHORT))]
)  # fmt: skip
def test_what_is_no_pair_of_a_text_and_bytes_is_left_to_the_parser(pair: Any) -> None:
    assert READER.read_pairs([("s", SHORT), pair], 1) is None
    if isinstance(pair, tuple) and len(pair) == 2:
        assert READER.read_envelope(*pair, 1) is None


def test_pairs_are_read_in_their_order_and_each_run_of_a_stream_is_told_once() -> None:
    pairs = [other("a"), other("b"), other("c", "t"), other("d"), ("s", SHORT)]
    found = READER.read_pairs(pairs, 7)
    assert found == model.read_pairs(pairs, 7)
    events, streams = found or ([], [])
    assert ([event.source_event_id for event in events], streams) == (["a", "b", "c", "d", "e"], ["s", "t", "s"])
    assert events[0].stream is events[1].stream is events[3].stream
    assert READER.read_pairs([], 7) == ([], [])


def test_the_bounds_are_those_of_the_parser() -> None:
    for levels in (61, 62):
        raw = SHORT.replace(b":1}", b":%b%b}" % (b"[" * levels, b"]" * levels))
        assert READER.read_envelope("s", raw, 1) == model.read_envelope("s", raw, 1) is not None
    deeper = SHORT.replace(b":1}", b":%b%b}" % (b"[" * 63, b"]" * 63))
    assert READER.read_envelope("s", deeper, 1) is model.read_envelope("s", deeper, 1) is None
    assert new_reader(envelope_bytes_max=len(SHORT)).read_envelope("s", SHORT, 1) is not None
    assert new_reader(envelope_bytes_max=len(SHORT)).read_envelope("s", SHORT + b" ", 1) is None


@given(
    st.sampled_from([("s", SHORT), ("s", SPACED), (JEN, FULL)]),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 4), PIECES | st.just(b"")), max_size=3),
    st.sampled_from(["", "s", JEN, "t"]),
)
def test_whatever_is_changed_in_an_envelope_it_is_read_as_the_contract_reads_it_or_left_to_it(
    pair: tuple[str, bytes], changes: list[tuple[int, int, bytes]], instead: str
) -> None:
    to, raw = pair
    for somewhere, length, piece in changes:
        place = somewhere % (len(raw) + 1)
        raw = raw[:place] + piece + raw[place + length :]
    found = READER.read_envelope(instead or to, raw, 7)
    assert found is None or found == model.read_envelope(instead or to, raw, 7)

"""What a WebSocket's client sends: its texts come out whole and in order, however the line cuts them."""

import struct
import sys
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _fast
from tests.fast import texts_model

MASK = b"\x12\x34\x56\x78"
MAX = 100_000


@pytest.fixture(params=["compiled", "model"])
def frames(request: pytest.FixtureRequest) -> Any:
    """The module that has both."""
    return _fast if request.param == "compiled" else texts_model


def frame(data: bytes, kind: int = 0x81, mask: bytes = MASK) -> bytes:
    size = len(data)
    head = bytes([kind, (0x80 if mask else 0) | (size if size < 126 else 126 if size < 65536 else 127)])
    head += b"" if size < 126 else struct.pack("!H", size) if size < 65536 else struct.pack("!Q", size)
    return head + mask + (bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)) if mask else data)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 125, 126, 127, 65_535, 65_536, MAX])
def test_a_text_of_any_length_comes_out_as_it_was(frames: Any, size: int) -> None:
    text = bytes(place % 251 for place in range(size))
    reader = frames.FrameReader(MAX)
    assert reader.take(frame(text) + frame(b"next")) == ([text, b"next"], b"")
    assert (reader.is_plain, reader.held_bytes) == (True, 0)


@pytest.mark.parametrize("size", [3, 200])
def test_a_line_may_cut_anywhere(frames: Any, size: int) -> None:
    sent = frame(b"x" * size) + frame(b"ping", 0x89) + frame(b"y")
    for cut in range(len(sent) + 1):
        reader = frames.FrameReader(MAX)
        texts, others = reader.take(sent[:cut])
        assert reader.held_bytes == cut - sum(len(frame(text)) for text in texts) - len(others)
        more_texts, more_others = reader.take(sent[cut:])
        assert (texts + more_texts, others + more_others) == ([b"x" * size, b"y"], frame(b"ping", 0x89))


def test_a_frame_that_comes_byte_by_byte_is_whole_with_its_last_one(frames: Any) -> None:
    reader = frames.FrameReader(MAX)
    sent = frame(b"z" * 300)
    assert [reader.take(sent[at : at + 1])[0] for at in range(len(sent))] == [[]] * (len(sent) - 1) + [[b"z" * 300]]


@pytest.mark.parametrize(
    "other",
    [
        frame(b"part", 0x01),
        frame(b"rest", 0x80),
        frame(b"binary", 0x82),
        frame(b"\x03\xe8", 0x88),
        frame(b"reserved", 0x83),
        frame(b"compressed", 0xC1),
        frame(b"not masked", mask=b""),
        frame(b"", 0x09),
        b"\x89\xfe\x00\x80",
        b"\x81\xff" + (MAX + 1).to_bytes(8, "big"),
        b"\x81\xff" + b"\xff" * 8,
        frame(b"x" * (MAX + 1)),
    ],
    ids=lambda sent: sent[:4].hex(),
)
def test_from_what_is_not_plain_on_the_other_reader_has_everything(frames: Any, other: bytes) -> None:
    reader = frames.FrameReader(MAX)
    pong = frame(b"", 0x8A)
    behind = frame(b"behind") + b"\x00"
    assert reader.take(frame(b"a") + pong + frame(b"b") + other + behind) == ([b"a", b"b"], pong + other + behind)
    assert not reader.is_plain
    with pytest.raises(RuntimeError, match="the other reader has the rest"):
        reader.take(frame(b"c"))


def test_a_text_that_is_too_long_is_known_by_its_length_alone(frames: Any) -> None:
    reader = frames.FrameReader(125)
    sent = b"\x81\xfe\x00\x7e"
    assert reader.take(sent) == ([], sent)
    assert not reader.is_plain


def test_a_ping_need_not_be_masked_for_the_other_reader_to_get_it(frames: Any) -> None:
    sent = frame(b"hello", 0x89, mask=b"")
    assert frames.FrameReader(MAX).take(sent + frame(b"a")) == ([b"a"], sent)


@pytest.mark.parametrize("wrong", ["text", None, bytearray(b"\x81")])
def test_only_bytes_are_taken(frames: Any, wrong: Any) -> None:
    with pytest.raises(TypeError):
        frames.FrameReader(MAX).take(wrong)


def test_there_is_no_reader_of_no_text_at_all(frames: Any) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        frames.FrameReader(0)


FRAMES = st.one_of(
    st.binary(max_size=20).map(frame),
    st.binary(min_size=120, max_size=130).map(frame),
    st.binary(max_size=5).map(lambda data: frame(data, 0x89)),
    st.binary(max_size=5).map(lambda data: frame(data, 0x8A, mask=b"")),
    st.binary(max_size=8),
)


@given(st.lists(FRAMES, max_size=12).map(b"".join), st.lists(st.integers(0, 300), max_size=6), st.integers(1, 140))
def test_any_bytes_in_any_pieces_are_read_as_by_the_model(sent: bytes, cuts: list[int], longest: int) -> None:
    edges = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    compiled, model = _fast.FrameReader(longest), texts_model.FrameReader(longest)
    for start, end in pairwise(edges):
        assert compiled.take(sent[start:end]) == model.take(sent[start:end])
        assert (compiled.is_plain, compiled.held_bytes) == (model.is_plain, model.held_bytes)
        if not model.is_plain:
            return


def test_a_long_text_in_tiny_pieces_takes_little_more_than_its_bytes() -> None:
    size = 1 << 21
    reader = _fast.FrameReader(size)
    sent = frame(b"x" * size, mask=bytes(4))
    tracemalloc.start()
    try:
        for at in range(0, len(sent) - 2, 2):
            reader.take(sent[at : at + 2])
        assert tracemalloc.get_traced_memory()[1] < 3 * size
    finally:
        tracemalloc.stop()
    texts, _ = reader.take(sent[-2:] if len(sent) % 2 == 0 else sent[-1:])
    assert texts == [b"x" * size]


def test_reading_keeps_nothing_of_what_was_read() -> None:
    reader = _fast.FrameReader(MAX)
    chunk = frame(b"x" * 50) * 20
    reader.take(chunk)
    before = sys.getrefcount(chunk)
    for _ in range(100):
        reader.take(chunk)
    assert sys.getrefcount(chunk) == before


@pytest.mark.parametrize(
    ("texts", "first", "keys", "end"),
    [
        ([], 0, [], 0),
        ([b'{"ack":1}'], 0, [1], 1),
        ([b'{"ack":1}', b'{"ack":[2,3]}', b'{"credit":1}', b'{"ack":4}'], 0, [1, 2, 3], 2),
        ([b'{"ack":1}', b'{"ack":[2,3]}', b'{"credit":1}', b'{"ack":4}'], 3, [4], 4),
        ([b' { "ack" : [ 1 , 2 ] } ', b'\n{"ack"\t:\r7}'], 0, [1, 2, 7], 2),
        ([b'{"ack":999999999999999999}'], 0, [999999999999999999], 1),
        ([b'{"ack":1}'], 5, [], 5),
    ],
)
def test_acknowledgements_in_a_row_are_one_list(
    frames: Any, texts: list[bytes], first: int, keys: list[int], end: int
) -> None:
    assert frames.ack_keys(texts, first, 10) == (keys, end)


@pytest.mark.parametrize(
    ("texts", "keys", "end"),
    [
        ([b'{"ack":1}'] * 5, [1] * 3, 3),
        ([b'{"ack":[1,2,3]}', b'{"ack":4}'], [1, 2, 3], 1),
        ([b'{"ack":[1,2]}', b'{"ack":[3,4]}', b'{"ack":5}'], [1, 2], 1),
        ([b'{"ack":1}', b'{"ack":[2,3]}', b'{"ack":[4]}'], [1, 2, 3], 2),
    ],
)
def test_acknowledgements_in_a_row_are_no_more_than_one_text_may_have(
    frames: Any, texts: list[bytes], keys: list[int], end: int
) -> None:
    assert frames.ack_keys(texts, 0, 3) == (keys, end)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"ack":}',
        b'{"ack":0}',
        b'{"ack":01}',
        b'{"ack":-1}',
        b'{"ack":1.0}',
        b'{"ack":1e3}',
        b'{"ack":"1"}',
        b'{"ack":[]}',
        b'{"ack":[1,]}',
        b'{"ack":[1 2]}',
        b'{"ack":[1',
        b'{"ack":[1]',
        b'{"ack":[1}',
        b'{"ack":["e"]}',
        b'{"ack":1,"attempt":1}',
        b'{"ack":1,"ack":2}',
        b'{"ack":1}}',
        b'{"ack":1} x',
        b'{"Ack":1}',
        b'{"\\u0061ck":1}',
        b'{"nack":1}',
        b'[{"ack":1}]',
        b'{"ack":1000000000000000000}',
        b'{"ack":[1,2,3,4]}',
        b"\xff",
    ],
)
def test_what_is_not_plainly_an_acknowledgement_is_left_to_the_parser(frames: Any, text: bytes) -> None:
    assert frames.ack_keys([b'{"ack":5}', text, b'{"ack":6}'], 0, 3) == ([5], 1)


PIECES = st.lists(st.sampled_from([b"{", b"}", b'"ack"', b":", b"[", b"]", b",", b" ", b"1", b"20", b"0", b"x"]))


@given(st.lists(PIECES.map(b"".join), max_size=4), st.integers(0, 3), st.integers(0, 3))
def test_any_texts_acknowledge_what_the_model_says(texts: list[bytes], first: int, keys_max: int) -> None:
    assert _fast.ack_keys(texts, first, keys_max) == texts_model.ack_keys(texts, first, keys_max)


@pytest.mark.parametrize(("texts", "first"), [(["{}"], 0), ([None], 0), ([], -1)])
def test_texts_are_bytes_and_there_is_none_before_the_first(frames: Any, texts: list[Any], first: int) -> None:
    with pytest.raises((TypeError, ValueError)):
        frames.ack_keys(texts, first, 3)

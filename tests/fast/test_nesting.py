"""How deep JSON is nested: brackets count, those in strings do not, and any bytes have an answer."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import _fast
from tests.fast.nesting_model import deeper_than as model

BYTES = st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b"a", b"\xff", b"\x00"]), max_size=40).map(
    b"".join
)


@pytest.mark.parametrize(
    ("data", "levels", "place"),
    [
        (b"", 0, -1),
        (b"1", 0, -1),
        (b"[]", 0, 0),
        (b"[]", 1, -1),
        (b"[[]]", 1, 1),
        (b'{"a":{"b":[1]}}', 2, 10),
        (b'{"a":{"b":[1]}}', 3, -1),
        (b"[][][]", 1, -1),
        (b'["[[[["]', 1, -1),
        (rb'["\"[[", []]', 1, 9),
        (rb'["\\", []]', 1, 7),
        (b'["[[[[', 1, -1),
        (b'["\\', 1, -1),
        (b"]][[[", 0, 4),
        (b"[", -1, 0),
    ],
)
def test_the_place_of_the_first_bracket_that_is_too_deep_is_found(
    deeper_than: Any, data: bytes, levels: int, place: int
) -> None:
    assert deeper_than(data, levels) == place


@given(BYTES, st.integers(-1, 6))
@example(b'"\\', 0)
@example(b'\\"[', 0)
def test_any_bytes_have_the_answer_of_the_model(data: bytes, levels: int) -> None:
    assert _fast.deeper_than(data, levels) == model(data, levels)


def test_a_megabyte_of_nothing_but_brackets_is_walked_to_its_end(deeper_than: Any) -> None:
    assert deeper_than(b"[]" * 500_000 + b"[[", 1) == 1_000_001


def test_text_of_any_script_is_skipped(deeper_than: Any) -> None:
    assert deeper_than(json.dumps({"[é🐎": ["{", "\u2028"]}, ensure_ascii=False).encode(), 2) == -1


@pytest.mark.parametrize("wrong", ["[]", None, bytearray(b"[]"), memoryview(b"[]")])
def test_only_bytes_are_walked(wrong: Any) -> None:
    with pytest.raises(TypeError):
        _fast.deeper_than(wrong, 1)


def test_a_level_wider_than_64_bits_is_refused() -> None:
    with pytest.raises(OverflowError):
        _fast.deeper_than(b"[]", 2**63)

"""JSON pointers find the bytes that came."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contracts.json_pointer import elements, find, parse_pointer, pointer_problem

# The examples of RFC 6901.
DOCUMENT = b"""
{ "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\\\j": 5, "k\\"l": 6, " ": 7, "m~n": 8 }
"""


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", json.loads(DOCUMENT)), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2),
        ("/e^f", 3), ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8),
    ],
)  # fmt: skip
def test_the_examples_of_the_standard_hold(pointer: str, value: Any) -> None:
    found = find(DOCUMENT, parse_pointer(pointer))
    assert found is not None
    assert json.loads(found) == value


@pytest.mark.parametrize("pointer", ["/foo/2", "/foo/-", "/foo/00", "/foo/+1", "/foo/x", "/nothing", "/foo/0/0", "//"])
def test_where_there_is_nothing_nothing_is_found(pointer: str) -> None:
    assert find(DOCUMENT, parse_pointer(pointer)) is None


@pytest.mark.parametrize("pointer", ["foo", "#/foo", "/a~", "/a~2", "~0"])
def test_what_is_no_pointer_is_said_to_be_none(pointer: str) -> None:
    assert pointer_problem(pointer) is not None


def test_numbers_and_spaces_are_as_they_came() -> None:
    assert find(b'{"a": { "b" : 1E400 } }', ("a", "b")) == b"1E400"
    assert find(b"[ 1.0000000000000000000001 ]", ("0",)) == b"1.0000000000000000000001"
    assert elements(b'[ 1 , "x",{"a": 1,"a":2} ]') == [b"1", b'"x"', b'{"a": 1,"a":2}']


KEYS = st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_every_value_of_a_document_is_found_under_its_pointer(document: Any) -> None:
    raw = json.dumps(document).encode()

    def check(value: Any, pointer: str) -> None:
        assert pointer_problem(pointer) is None
        found = find(raw, parse_pointer(pointer))
        assert found is not None
        assert json.loads(found) == value
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in parts:
            check(inner, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")

    check(document, "")

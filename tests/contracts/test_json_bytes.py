"""The checks of JSON bytes besides their grammar."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contracts.json_bytes import check_depth, check_utf8, repeated_key
from broker.errors import InvalidRequest
from broker.limits import JSON_DEPTH_MAX, JSON_KEYS_BYTES_MAX, JSON_VALUE_BYTES_CUT

FIXED = settings(derandomize=True, database=None, deadline=None, max_examples=300)
TEXTS = st.text(alphabet='ab[]{}"\\\n é', max_size=8)
DOCUMENTS = st.recursive(
    TEXTS | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


def depth_of(value: Any) -> int:
    if isinstance(value, list):
        return 1 + max((depth_of(each) for each in value), default=0)
    if isinstance(value, dict):
        return 1 + max((depth_of(each) for each in value.values()), default=0)
    return 0


@pytest.mark.parametrize("data", [b"", b"plain", "é 🐎 \u2028".encode(), b"\x00\x7f"])
def test_valid_utf8_text_passes(data: bytes) -> None:
    check_utf8(data)


@pytest.mark.parametrize(
    ("data", "place"), [(b"\xff", 0), (b"a\xc3", 1), (b"ab\xed\xa0\x80", 2), (b"\xc0\xaf", 0), (b"\xf4\x90\x80\x80", 0)]
)
def test_what_is_not_utf8_is_refused_with_its_place(data: bytes, place: int) -> None:
    with pytest.raises(InvalidRequest, match=f"not valid UTF-8 at byte {place};"):
        check_utf8(data)


@given(DOCUMENTS, st.integers(JSON_DEPTH_MAX - 3, JSON_DEPTH_MAX + 1))
@FIXED
def test_a_document_passes_exactly_when_it_is_not_too_deep(document: Any, around: int) -> None:
    for _ in range(around):
        document = [document, "[["]
    data = json.dumps(document).encode()
    if depth_of(document) <= JSON_DEPTH_MAX:
        check_depth(data)
    else:
        with pytest.raises(InvalidRequest, match="nested deeper than"):
            check_depth(data)


@pytest.mark.parametrize(("levels", "fits"), [(1, True), (JSON_DEPTH_MAX, True), (JSON_DEPTH_MAX + 1, False)])
def test_the_bound_itself_fits(levels: int, fits: bool) -> None:
    data = b"[" * levels + b"]" * levels
    if fits:
        check_depth(data)
    else:
        with pytest.raises(InvalidRequest) as refused:
            check_depth(data)
        assert f"at byte {JSON_DEPTH_MAX};" in refused.value.message


def test_many_brackets_side_by_side_are_not_deep() -> None:
    check_depth(b"[" + b",".join([b"[]"] * 1000) + b"]")


@pytest.mark.parametrize("levels", [-1, 0, 1, 5])
def test_levels_around_a_document_count_as_its_own(levels: int) -> None:
    deepest = JSON_DEPTH_MAX - levels
    check_depth(b"[" * deepest + b"]" * deepest, levels_around=levels)
    with pytest.raises(InvalidRequest, match=f"nested deeper than {deepest} levels at byte {deepest};"):
        check_depth(b"[" * (deepest + 1), levels_around=levels)


NAMES = st.sampled_from(["id", "type", "a:b", 'q"', "b\\", "é", "{", "]"])
SPELLINGS = st.sampled_from([False, True])


@FIXED
@given(st.lists(st.tuples(NAMES, SPELLINGS, DOCUMENTS), max_size=5), st.sets(NAMES))
def test_a_repeated_key_is_found_if_and_only_if_there_is_one(pairs: list[Any], names: set[str]) -> None:
    def spelled(name: str, escaped: bool) -> str:
        return (
            '"' + "".join(f"\\u{ord(c):04X}" for c in name) + '"' if escaped else json.dumps(name, ensure_ascii=False)
        )

    text = "{" + " , ".join(f"{spelled(name, escaped)} : {json.dumps(value)}" for name, escaped, value in pairs) + "}"
    given_names = [name for name, _, _ in pairs]
    repeated = {name for name in names if given_names.count(name) > 1}
    found = repeated_key(text.encode(), names)
    assert found in repeated if repeated else found is None


def test_a_key_is_found_behind_and_before_large_values_and_equal_ones() -> None:
    large = json.dumps(["id", {"id": 1}] * JSON_VALUE_BYTES_CUT)
    for text in (f'{{"id":1,"a":{large},"id":2}}', f'{{"id":{large},"b":{large},"id":{large}}}'):
        assert repeated_key(text.encode(), {"id"}) == "id"
    assert repeated_key(f'{{"id":{large},"b":{large},"c":[{large}]}}'.encode(), {"id"}) is None


def test_an_object_that_is_large_besides_its_values_is_refused_rather_than_looked_through() -> None:
    def padded(size: int) -> bytes:
        return b'{"\\u0061":1,' + b" " * size + b'"id":1}'

    spaces = JSON_KEYS_BYTES_MAX - len(padded(0))
    assert repeated_key(padded(spaces), {"id"}) is None
    with pytest.raises(InvalidRequest, match="looked through"):
        repeated_key(padded(spaces + 1), {"id"})
    overridden = b'{"\\u0061":' + b"[" + b"1," * JSON_KEYS_BYTES_MAX + b'1],"a":2}'
    with pytest.raises(InvalidRequest, match="looked through"):
        repeated_key(overridden, {"a"})

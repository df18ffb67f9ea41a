"""Members changed in the bytes of an object, and nothing else."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.triggers.splice import append_items, set_member
from tests.support.events import AWKWARD_PAYLOADS, raw_envelope


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"{}", b'{"k":1}'),
        (b" { } ", b' { "k":1} '),
        (b'{"a":2}', b'{"a":2,"k":1}'),
        (b'{"k":2}', b'{"k":1}'),
        (b'{ "k" : [1, {"k": "}"}] , "b":3 }', b'{ "k" : 1 , "b":3 }'),
        (b'{"a":{"k":2}}', b'{"a":{"k":2},"k":1}'),
        (b'{"a":"\\"k\\":{["}', b'{"a":"\\"k\\":{[","k":1}'),
        (b'{"\\u006b":2}', b'{"\\u006b":1}'),
        (b'{"k":12,"k":1}', b'{"k":12,"k":1}'),
        (b'{"k":1,"k":12}', b'{"k":1,"k":1}'),
        (b'{"k":{"k":[]},"k":"x"}', b'{"k":{"k":[]},"k":1}'),
        (b'{"k":"a\\\\","k":true}', b'{"k":"a\\\\","k":1}'),
    ],
)
def test_a_member_is_set_in_its_place_or_at_the_end(before: bytes, after: bytes) -> None:
    assert set_member(before, "k", b"1") == after


@pytest.mark.parametrize("payload", AWKWARD_PAYLOADS)
def test_what_parsing_and_writing_would_alter_stays_byte_for_byte(payload: bytes) -> None:
    before = raw_envelope(payload=payload)
    after = set_member(set_member(before, "headers", b'{"a":1}'), "id", b'"other"')
    assert payload in after
    assert after.replace(b'"other"', b'"e-1"').replace(b',"headers":{"a":1}', b"") == before


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"[]", b'["x","y"]'), (b"[ ]", b'[ "x","y"]'), (b'["a"]', b'["a","x","y"]'), (b'[ "]" ]', b'[ "]" ,"x","y"]')],
)
def test_items_are_added_at_the_end(before: bytes, after: bytes) -> None:
    assert append_items(before, [b'"x"', b'"y"']) == after
    assert append_items(before, []) == before


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(alphabet='a"\\{}[],: é')),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(alphabet='k"{,'), inner, max_size=3)),
    max_leaves=8,
)


@given(
    st.lists(st.tuples(st.text(alphabet='ab"\\{', max_size=2), VALUES), max_size=6),
    st.text(alphabet='ab"\\{', max_size=2),
    VALUES,
    st.sampled_from([None, 1, "\t"]),
)
def test_any_object_gets_the_member_and_keeps_the_others_in_their_order(
    members: list[tuple[str, Any]], key: str, value: Any, indent: Any
) -> None:
    space = "" if indent is None else " \n"
    written = (f"{space}{json.dumps(name)}{space}:{json.dumps(each, indent=indent)}" for name, each in members)
    before = "{" + ",".join(written) + space + "}"
    after = set_member(before.encode(), key, json.dumps(value).encode())
    expected = list(members)
    places = [place for place, (name, _) in enumerate(members) if name == key]
    if places:
        expected[places[-1]] = (key, value)
    else:
        expected.append((key, value))
    assert json.loads(after, object_pairs_hook=lambda pairs: pairs) == json.loads(
        "{" + ",".join(f"{json.dumps(name)}:{json.dumps(each)}" for name, each in expected) + "}",
        object_pairs_hook=lambda pairs: pairs,
    )
    assert bytes(msgspec.json.decode(after, type=dict[str, msgspec.Raw])[key]) == json.dumps(value).encode()

"""Templates with the fields of an event put in."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contracts.courier import parse_envelope
from broker.triggers.fields import Fields
from broker.triggers.render import rendered, rendered_text
from tests.support.events import AWKWARD_PAYLOADS, STREAM, envelope, raw_envelope


def fields(**more: Any) -> Fields:
    return Fields(parse_envelope(STREAM, json.dumps(envelope(**more)).encode(), 1))


def shown(value: Any, env: Fields) -> Any:
    return json.loads(msgspec.json.encode(rendered(value, env)))


PAYLOAD = {"title": 'a "quoted" title', "n": 7, "f": 1.5, "yes": True, "nothing": None, "list": [1, {"deep": "x"}]}


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("${env.id}", "e-1"),
        ("${env.to}", STREAM),
        ("${env.payload.n}", 7),
        ("${env.payload.yes}", True),
        ("${env.payload.nothing}", None),
        ("${env.payload.list}", [1, {"deep": "x"}]),
        ("${env.payload.list.1.deep}", "x"),
        ("${env.payload.list.0}", 1),
        ("no ${env.payload.n}, ${env.payload.yes}", "no 7, true"),
        ("<${env.payload.title}>", '<a "quoted" title>'),
        ("${env.id}${env.payload.f}", "e-11.5"),
        (" ${env.payload.list}", ' [1, {"deep": "x"}]'),
        ("$${env.id}", "${env.id}"),
        ("plain", "plain"),
        (5, 5),
        (None, None),
        ({"a": ["${env.id}", {"b": "${env.payload.n}"}], "${env.id}": 1}, {"a": ["e-1", {"b": 7}], "${env.id}": 1}),
    ],
)
def test_a_whole_template_keeps_its_type_and_one_inside_a_text_is_text(template: Any, result: Any) -> None:
    env = fields(payload=PAYLOAD)
    assert shown(template, env) == result
    assert env.missing == 0


@pytest.mark.parametrize(
    "path", ["nope", "corr", "payload.nope", "payload.n.x", "payload.list.2", "payload.list.x", "payload.title.0",
             "payload.list.00000000000", "payload.nothing.x"],
)  # fmt: skip
def test_a_missing_field_is_null_and_counted(path: str) -> None:
    env = fields(payload=PAYLOAD)
    assert shown(f"${{env.{path}}}", env) is None
    assert shown(f"<${{env.{path}}}>", env) == "<null>"
    assert env.missing == 2


@pytest.mark.parametrize("payload", AWKWARD_PAYLOADS)
def test_a_field_is_put_in_byte_for_byte(payload: bytes) -> None:
    env = Fields(parse_envelope(STREAM, raw_envelope(payload=payload), 1))
    assert msgspec.json.encode(rendered({"p": "${env.payload}"}, env)) == b'{"p":' + payload.strip() + b"}"


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**80), 2**80), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=10,
)


@given(JSON)
def test_any_field_comes_through_a_template_as_it_is(value: Any) -> None:
    env = fields(payload={"x": value})
    assert shown("${env.payload.x}", env) == value
    inside = rendered_text("<${env.payload.x}>", env)
    assert inside == f"<{value}>" if isinstance(value, str) else json.loads(inside[1:-1]) == value
    assert env.missing == 0

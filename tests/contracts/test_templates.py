"""Text with fields of an envelope in it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contracts.templates import Field, parse_template, template_problem
from broker.limits import TEMPLATE_PARTS_MAX


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("",)),
        ("plain $ text}", ("plain $ text}",)),
        ("${env.id}", (Field(("id",)),)),
        ("${env.payload.a-b.0}", (Field(("payload", "a-b", "0")),)),
        ("<${env.id}>", ("<", Field(("id",)), ">")),
        ("${env.id}${env.to}", (Field(("id",)), Field(("to",)))),
        ("$${env.id}", ("${env.id}",)),
        ("a $${ b", ("a ${ b",)),
    ],
)
def test_a_text_is_cut_into_plain_text_and_fields(text: str, parts: tuple[object, ...]) -> None:
    assert template_problem(text) is None
    assert parse_template(text) == parts


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${id}", "'${id}' is no field; write ${env.NAME}, or $${ for a plain ${"),
        ("${env}", "'${env}' is no field; write ${env.NAME}, or $${ for a plain ${"),
        ("${env.}", "'${env.}' is no field; write ${env.NAME}, or $${ for a plain ${"),
        ("${env.a..b}", "'${env.a..b}' is no field; write ${env.NAME}, or $${ for a plain ${"),
        ("${env.a b}", "'${env.a b}' is no field; write ${env.NAME}, or $${ for a plain ${"),
        ("x ${env.a", "a ${ has no }; write $${ for a plain ${"),
    ],
)
def test_what_looks_like_a_field_and_is_none_is_refused(text: str, problem: str) -> None:
    assert template_problem(text) == problem


def test_a_text_may_have_so_many_templates_and_no_more() -> None:
    assert template_problem("${env.a}" * TEMPLATE_PARTS_MAX) is None
    assert "at most" in (template_problem("${env.a}" * (TEMPLATE_PARTS_MAX + 1)) or "")


@given(st.text(alphabet="${}env.a \n"))
def test_any_text_has_a_problem_or_parts(text: str) -> None:
    if template_problem(text) is None:
        parts = parse_template(text)
        assert parts
        assert not any(isinstance(one, str) and isinstance(two, str) for one, two in pairwise(parts))


@given(st.lists(st.one_of(st.text(alphabet="ab} "), st.just(Field(("x", "y")))), max_size=8))
def test_parts_written_as_a_template_are_read_back(parts: list[object]) -> None:
    text = "".join(part if isinstance(part, str) else "${env.x.y}" for part in parts)
    found = parse_template(text)
    assert "".join(part if isinstance(part, str) else "${env.x.y}" for part in found) == text
    assert sum(isinstance(part, Field) for part in found) == sum(isinstance(part, Field) for part in parts)

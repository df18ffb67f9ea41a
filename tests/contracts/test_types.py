"""Patterns of event types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contracts.types import type_pattern_matches, type_pattern_problem
from broker.limits import EVENT_TYPE_BYTES_MAX


@pytest.mark.parametrize(
    ("pattern", "event_type", "matches"),
    [
        ("sprint.log", "sprint.log", True),
        ("sprint.log", "sprint.logs", False),
        ("sprint.*", "sprint.log", True),
        ("sprint.*", "sprint", False),
        ("sprint.*", "sprint.log.late", False),
        ("*.log", "sprint.log", True),
        ("*.log", "sprint.assign", False),
        ("sprint.**", "sprint.log", True),
        ("sprint.**", "sprint.log.late", True),
        ("sprint.**", "sprint", False),
        ("sprint.**", "sprints.log", False),
        ("**", "anything", True),
        ("**", "any.thing", True),
        ("*", "anything", True),
        ("*", "any.thing", False),
        ("*.*.c", "a.b.c", True),
        ("sprint..log", "sprint..log", True),
        ("sprint.*.log", "sprint..log", True),
    ],
)
def test_a_star_stands_for_one_part_and_two_for_the_rest(pattern: str, event_type: str, matches: bool) -> None:
    assert type_pattern_problem(pattern) is None
    assert type_pattern_matches(pattern, event_type) is matches


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "it is empty"),
        ("a*", "part 1 mixes * with text; * and ** stand for whole parts"),
        ("a.b*c", "part 2 mixes * with text; * and ** stand for whole parts"),
        ("a.***", "part 2 mixes * with text; * and ** stand for whole parts"),
        ("a.**.b", "part 2 is **, which may only come last"),
        ("a\n", "it has a control character at position 2"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str, problem: str) -> None:
    assert type_pattern_problem(pattern) == problem


def test_a_pattern_may_be_as_long_as_a_type_and_no_longer() -> None:
    assert type_pattern_problem("a" * EVENT_TYPE_BYTES_MAX) is None
    assert type_pattern_problem("a" * (EVENT_TYPE_BYTES_MAX + 1)) is not None


PARTS = st.lists(st.sampled_from(["a", "b", "", "ab"]), min_size=1, max_size=5)


@given(PARTS, PARTS)
def test_a_pattern_without_stars_matches_itself_alone(wanted: list[str], found: list[str]) -> None:
    assert type_pattern_matches(".".join(wanted), ".".join(found)) is (wanted == found)


@given(PARTS, st.data())
def test_a_star_in_the_place_of_any_part_still_matches(parts: list[str], data: st.DataObject) -> None:
    starred = ["*" if data.draw(st.booleans()) else part for part in parts]
    assert type_pattern_matches(".".join(starred), ".".join(parts))
    kept = data.draw(st.integers(0, len(parts) - 1))
    assert type_pattern_matches(".".join([*starred[:kept], "**"]), ".".join(parts))

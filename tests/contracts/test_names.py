"""Stream names and patterns: the grammar, matching and precedence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contracts.names import (
    pattern_covers,
    pattern_matches,
    pattern_specificity,
    stream_name_problem,
    stream_pattern_problem,
    text_problem,
)

# Few letters, so that names and patterns meet often.
SEGMENTS = st.text("ab.-_", min_size=1, max_size=2).filter(lambda segment: segment not in (".", ".."))
NAMES = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)
PATTERNS = st.builds(
    lambda most, last: "/".join([*most, last]),
    st.lists(SEGMENTS | st.just("*"), max_size=3),
    SEGMENTS | st.sampled_from(["*", "**"]),
)


@pytest.mark.parametrize("name", ["a", "agents/Jen/inbox", "a.b-c_D9", "/".join("12345678"), "a" * 255, "...", "a/..."])
def test_a_good_name_has_no_problem(name: str) -> None:
    assert stream_name_problem(name) is None
    assert stream_pattern_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "it is empty"),
        ("/", "segment 1 is empty"),
        ("a//b", "segment 2 is empty"),
        ("a/", "segment 2 is empty"),
        ("a b", "segment 1 has a character outside A-Z a-z 0-9 . _ -"),
        ("a/é", "segment 2 has a character outside A-Z a-z 0-9 . _ -"),
        ("a/٣", "segment 2 has a character outside A-Z a-z 0-9 . _ -"),
        ("a\n", "it has a control character at position 2"),
        ("a\x00b", "it has a control character at position 2"),
        ("a\x85", "it has a control character at position 2"),
        ("\ud800", "it has a lone surrogate at position 1"),
        ("a/../b", 'segment 2 is "." or "..", which URLs resolve away'),
        (".", 'segment 1 is "." or "..", which URLs resolve away'),
        ("/".join("123456789"), "it has 9 segments; at most 8 are allowed"),
        ("a" * 256, "it is 256 bytes long; at most 255 are allowed"),
        ("é" * 128, "it is 256 bytes long; at most 255 are allowed"),
        ("agents/*", "segment 2 has a character outside A-Z a-z 0-9 . _ -"),
        ("**", "segment 1 has a character outside A-Z a-z 0-9 . _ -"),
    ],
)
def test_a_bad_name_has_a_reason(name: str, problem: str) -> None:
    assert stream_name_problem(name) == problem


@pytest.mark.parametrize("pattern", ["*", "**", "agents/*", "agents/**", "*/x/*", "*/**", "/".join("*" * 8)])
def test_a_good_pattern_has_no_problem(pattern: str) -> None:
    assert stream_pattern_problem(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "it is empty"),
        ("**/a", "segment 1 is **, which may only come last"),
        ("a/**/b", "segment 2 is **, which may only come last"),
        ("a*", "segment 1 mixes * with text; * and ** stand for whole segments"),
        ("***", "segment 1 mixes * with text; * and ** stand for whole segments"),
        ("a/ ", "segment 2 has a character outside A-Z a-z 0-9 . _ -"),
        ("a/*/", "segment 3 is empty"),
        ("*/..", 'segment 2 is "." or "..", which URLs resolve away'),
        ("/".join("*" * 9), "it has 9 segments; at most 8 are allowed"),
    ],
)
def test_a_bad_pattern_has_a_reason(pattern: str, problem: str) -> None:
    assert stream_pattern_problem(pattern) == problem


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("agents/*", "agents/Jen", True),
        ("agents/*", "agents", False),
        ("agents/*", "agents/Jen/inbox", False),
        ("agents/**", "agents/Jen/inbox", True),
        ("agents/**", "agents/Jen", True),
        ("agents/**", "agents", False),
        ("**", "agents", True),
        ("**", "agents/Jen/inbox", True),
        ("*", "agents", True),
        ("*", "agents/Jen", False),
        ("*/**", "agents", False),
        ("agents/*/inbox", "agents/Jen/inbox", True),
        ("agents/*/inbox", "agents/Jen/outbox", False),
        ("agents/Jen", "agents/jen", False),
        ("a.b", "axb", False),
    ],
)
def test_a_pattern_matches_whole_segments(pattern: str, name: str, matches: bool) -> None:
    assert pattern_matches(pattern, name) is matches


def test_the_most_specific_pattern_sorts_last() -> None:
    ordered = ["**", "*/**", "*/*/inbox", "agents/**", "agents/*/**", "agents/*/inbox", "agents/Jen/inbox"]
    assert sorted(set(ordered), key=pattern_specificity) == ordered


@given(st.text())
def test_any_text_gets_an_answer(text: str) -> None:
    for answer in (stream_name_problem(text), stream_pattern_problem(text), text_problem(text, 10)):
        assert answer is None or answer
    assert pattern_specificity(text)
    assert pattern_matches(text, text) in (True, False)


@given(NAMES)
def test_a_name_is_a_pattern_that_matches_itself(name: str) -> None:
    assert stream_name_problem(name) is None
    assert stream_pattern_problem(name) is None
    assert pattern_matches(name, name)


@given(NAMES, NAMES)
def test_a_name_as_a_pattern_matches_no_other_name(one: str, other: str) -> None:
    assert pattern_matches(one, other) is (one == other)


@given(NAMES)
def test_two_stars_match_every_name(name: str) -> None:
    assert pattern_matches("**", name)


@given(PATTERNS, NAMES)
def test_matching_agrees_with_a_slow_definition(pattern: str, name: str) -> None:
    def slow(wanted: list[str], found: list[str]) -> bool:
        if wanted == ["**"]:
            return len(found) >= 1
        if not wanted or not found:
            return not wanted and not found
        return wanted[0] in ("*", found[0]) and slow(wanted[1:], found[1:])

    assert stream_pattern_problem(pattern) is None
    assert pattern_matches(pattern, name) is slow(pattern.split("/"), name.split("/"))


@given(NAMES, st.data())
def test_of_the_patterns_that_match_one_name_exactly_one_is_most_specific(name: str, data: st.DataObject) -> None:
    segments = name.split("/")
    length = data.draw(st.integers(1, len(segments)))
    masks = st.lists(st.booleans(), min_size=length, max_size=length)

    def pattern(mask: list[bool]) -> str:
        kept = [segment if keep else "*" for segment, keep in zip(segments, mask, strict=False)]
        return "/".join(kept if length == len(segments) else [*kept[:-1], "**"])

    one, other = pattern(data.draw(masks)), pattern(data.draw(masks))
    assert pattern_matches(one, name)
    assert pattern_matches(other, name)
    assert (pattern_specificity(one) == pattern_specificity(other)) is (one == other)


@given(PATTERNS, PATTERNS, NAMES)
def test_no_two_different_patterns_that_match_one_name_tie(one: str, other: str, name: str) -> None:
    if pattern_matches(one, name) and pattern_matches(other, name) and one != other:
        assert pattern_specificity(one) != pattern_specificity(other)


@given(NAMES, PATTERNS)
def test_the_name_itself_is_the_most_specific_pattern_for_it(name: str, pattern: str) -> None:
    if pattern_matches(pattern, name):
        assert pattern_specificity(pattern) <= pattern_specificity(name)


@given(pattern=PATTERNS, other=PATTERNS, name=NAMES)
def test_a_pattern_that_covers_another_selects_every_name_of_it(pattern: str, other: str, name: str) -> None:
    if pattern_covers(pattern, other) and pattern_matches(other, name):
        assert pattern_matches(pattern, name)


@given(pattern=PATTERNS, name=NAMES)
def test_for_a_name_to_cover_is_to_match(pattern: str, name: str) -> None:
    assert pattern_covers(pattern, name) == pattern_matches(pattern, name)
    assert pattern_covers(pattern, pattern)


@pytest.mark.parametrize(
    ("pattern", "other", "covers"),
    [
        ("agents/*", "agents/**", False),
        ("agents/**", "agents/*", True),
        ("agents/**", "agents/*/inbox", True),
        ("agents/**", "**", False),
        ("**", "**", True),
        ("agents/*/inbox", "agents/Jen/inbox", True),
        ("agents/Jen/inbox", "agents/*/inbox", False),
        ("a/*/**", "a/**", False),
        ("a/**", "a/*/**", True),
    ],
)
def test_which_pattern_covers_which(pattern: str, other: str, covers: bool) -> None:
    assert pattern_covers(pattern, other) is covers

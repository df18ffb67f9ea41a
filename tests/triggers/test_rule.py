"""Which events a rule is for, and why not."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config import Trigger
from broker.contracts.courier import parse_envelope
from broker.contracts.inbound import InboundEvent
from broker.triggers.fields import Fields
from broker.triggers.rule import Rule
from tests.support.events import STREAM, envelope


def rule(**when: Any) -> Rule:
    given = {"id": "r", "when": when, "do": [{"action": "notify", "to": "out"}]}
    return Rule(msgspec.convert(given, Trigger), "config")


def fields(**more: Any) -> Fields:
    return Fields(parse_envelope(STREAM, json.dumps(envelope(**more)).encode(), 1))


WHOLE = {
    "from": "agents/Jen/outbox",
    "tags": ["sprint", "log"],
    "headers": {"priority": "high", "n": 1, "urgent": True, "f": 0.5},
}


@pytest.mark.parametrize(
    ("when", "miss"),
    [
        ({}, None),
        ({"to": "agents/*/inbox"}, None),
        ({"to": "agents/**"}, None),
        ({"to": "agents/*"}, "to is 'agents/Jen/inbox', and when.to is 'agents/*'"),
        ({"type": "sprint.*"}, None),
        ({"type": "sprint.log"}, "type is 'sprint.assign', and when.type is 'sprint.log'"),
        ({"from": "agents/Jen/outbox"}, None),
        ({"from": "agents/Jen"}, "from is 'agents/Jen/outbox', and when.from is 'agents/Jen'"),
        ({"tags": ["log"]}, None),
        ({"tags": ["log", "sprint"]}, None),
        ({"tags": ["log", "late"]}, "the tag 'late' is not there"),
        ({"headers": {"priority": "high", "n": 1, "urgent": True, "f": 0.5}}, None),
        ({"headers": {"n": 1.0}}, None),
        ({"headers": {"colour": "red"}}, "the header 'colour' is not there"),
        ({"headers": {"priority": "low"}}, "the header 'priority' is 'high', and when.headers has 'low'"),
        ({"headers": {"n": True}}, "the header 'n' is 1, and when.headers has True"),
        ({"headers": {"urgent": 1}}, "the header 'urgent' is True, and when.headers has 1"),
        ({"headers": {"n": "1"}}, "the header 'n' is 1, and when.headers has '1'"),
        ({"to": "agents/**", "type": "sprint.**", "from": "agents/Jen/outbox", "tags": ["log"]}, None),
        ({"to": "agents/**", "from": "nobody"}, "from is 'agents/Jen/outbox', and when.from is 'nobody'"),
    ],
)  # fmt: skip
def test_all_that_is_given_must_match_and_a_miss_says_why(when: dict[str, Any], miss: str | None) -> None:
    assert rule(**when).miss(fields(**WHOLE)) == miss


def test_what_an_envelope_does_not_have_matches_nothing() -> None:
    bare = fields()
    assert rule(**{"from": "x"}).miss(bare) == "there is no from, and when.from is 'x'"
    assert rule(tags=["x"]).miss(bare) == "the tag 'x' is not there"
    assert rule(headers={"x": 1}).miss(bare) == "the header 'x' is not there"


def test_of_repeated_keys_the_last_one_counts() -> None:
    raw = b'{"id":"e","ts":"2025-10-18T19:55:00Z","to":"s","type":"t","payload":1,"from":"a","from":"b"}'
    repeated = Fields(parse_envelope("s", raw, 1))
    assert rule(**{"from": "b"}).miss(repeated) is None
    assert rule(**{"from": "a"}).miss(repeated) is not None


def test_an_event_of_another_contract_is_seen_by_its_names_and_its_source() -> None:
    body = b'{"from":"forged","tags":["x"],"headers":{"a":1},"event_id":"7"}'
    event = InboundEvent(
        "skyra", "devices/pi/events", "gpio.changed", "pi", "7", 1, body, hashlib.sha256(body).digest()
    )
    assert rule(to="devices/**", type="gpio.*", **{"from": "pi"}).miss(Fields(event)) is None
    assert rule(**{"from": "forged"}).miss(Fields(event)) is not None
    assert rule(tags=["x"]).miss(Fields(event)) is not None
    assert rule(headers={"a": 1}).miss(Fields(event)) is not None
    assert Fields(event).find(("payload", "event_id")) == b'"7"'
    assert Fields(event).find(("id",)) == b'"7"'


TAGS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)


@given(TAGS, TAGS)
def test_tags_match_when_all_of_them_are_there(wanted: list[str], found: list[str]) -> None:
    assert (rule(tags=wanted).miss(fields(tags=found)) is None) is (set(wanted) <= set(found))


SCALARS = st.one_of(
    st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, 0.5]), st.sampled_from(["", "1", "true"])
)


@given(SCALARS, SCALARS)
def test_a_header_matches_a_value_that_json_calls_equal(wanted: Any, found: Any) -> None:
    both_bool = isinstance(wanted, bool) and isinstance(found, bool)
    neither_bool = not isinstance(wanted, bool) and not isinstance(found, bool)
    expected = (both_bool or neither_bool) and wanted == found
    assert (rule(headers={"h": wanted}).miss(fields(headers={"h": found})) is None) is expected

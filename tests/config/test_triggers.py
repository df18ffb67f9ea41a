"""The bounds of rules, and one rule by itself."""

from typing import Any

import pytest

from broker.config import Trigger, parse_trigger
from broker.errors import ConfigError
from broker.limits import TRIGGER_ACTIONS_MAX, TRIGGER_COOLDOWN_KEY_BYTES_MAX, TRIGGERS_MAX
from tests.config.conftest import Load, Problems

ROUTE = {"action": "route", "to": "s"}


def rule(rule_id: str = "r", **more: Any) -> dict[str, Any]:
    return {"id": rule_id, "when": {}, "do": [ROUTE], **more}


def test_there_may_be_so_many_rules_and_no_more(load_text: Load, problems_of: Problems) -> None:
    line = "- {{id: r{}, when: {{}}, do: [{{action: route, to: s}}]}}\n"
    text = "triggers:\n" + "".join(line.format(number) for number in range(TRIGGERS_MAX))
    assert len(load_text(text).config.triggers) == TRIGGERS_MAX
    (problem,) = problems_of(text + line.format("x"))
    assert problem.endswith(f"triggers: expected at most {TRIGGERS_MAX} rules, found {TRIGGERS_MAX + 1}")


def test_a_rule_may_have_so_many_actions_and_no_more() -> None:
    assert len(parse_trigger(rule(do=[ROUTE] * TRIGGER_ACTIONS_MAX)).do) == TRIGGER_ACTIONS_MAX
    with pytest.raises(ConfigError) as refused:
        parse_trigger(rule(do=[ROUTE] * (TRIGGER_ACTIONS_MAX + 1)))
    assert refused.value.problems == [
        f"do: expected at most {TRIGGER_ACTIONS_MAX} actions, found {TRIGGER_ACTIONS_MAX + 1}"
    ]


def test_a_cooldown_key_may_be_so_long_and_no_longer() -> None:
    def limits(size: int) -> dict[str, Any]:
        return {"cooldownMs": 1, "cooldownKey": "x" * size}

    assert parse_trigger(rule(limits=limits(TRIGGER_COOLDOWN_KEY_BYTES_MAX))).limits.cooldown_ms == 1
    with pytest.raises(ConfigError, match=r"^limits\.cooldownKey: "):
        parse_trigger(rule(limits=limits(TRIGGER_COOLDOWN_KEY_BYTES_MAX + 1)))


def test_one_rule_is_checked_as_one_of_a_file_and_named_by_its_own_keys(load_text: Load) -> None:
    found = parse_trigger(rule())
    assert isinstance(found, Trigger)
    assert (found,) == load_text("triggers: [{id: r, when: {}, do: [{action: route, to: s}]}]").config.triggers
    for given, problems in (
        (5, ["expected a mapping, found 5"]),
        (rule(whn={}), ["whn: unknown key; did you mean when?"]),
        (rule(do=[{"action": "route"}]), ["do[0].to: missing; route needs the name of a stream"]),
    ):
        with pytest.raises(ConfigError) as refused:
            parse_trigger(given)
        assert refused.value.problems == problems

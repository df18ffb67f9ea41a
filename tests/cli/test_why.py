"""`courier why`: the life of an event, for people and for programs."""

import json
import re
import subprocess

import pytest

from broker.cli import exits
from tests.conftest import StartBroker
from tests.support.process import BrokerProcess, courier
from tests.support.terminal import shown_by

RULE = {"id": "tell", "when": {"to": "in"}, "do": [{"action": "notify", "to": "out"}]}


@pytest.fixture
def broker(broker_process: StartBroker) -> BrokerProcess:
    broker = broker_process(config={"triggers": [RULE]})
    for stream, event_id in (("in", "e-1"), ("in", "e-1"), ("other", "e-2"), ("in", "e-2")):
        assert courier("pub", stream, "1", "--id", event_id, "--url", broker.url).returncode == 0
    return broker


def why(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """For a program."""
    return courier("why", *arguments, "--url", broker.url)


def told(broker: BrokerProcess, *arguments: str) -> str:
    """To a person, without colour."""
    code, text = shown_by("why", *arguments, "--url", broker.url, env={"TERM": "dumb"})
    assert code == 0, text
    return text


def test_the_life_of_an_event_reads_from_its_receipt_to_its_effects(broker: BrokerProcess) -> None:
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    expected = [
        "e-1 on in: waits for a consumer",
        "  type      message",
        "  contract  courier, from stream:in",
        f"  accepted  {time}, sequence 1",
        f"  repeated  once, at last at {time}, 1 of them with another payload",
        "  attempts  none that has ended",
        r"  caused    2 t-[0-9a-f]{32} on out \(trigger\.notify, pending, by tell\)",
        "  rules, as they are now:",
        r"    tell \(config\) matches",
    ]
    lines = told(broker, "e-1").splitlines()
    assert len(lines) == len(expected), lines
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


def test_an_effect_tells_of_its_cause_and_is_found_by_its_sequence(broker: BrokerProcess) -> None:
    text = told(broker, "--seq", "2")
    assert "  caused by 1 e-1 on in (message, pending)\n  rule      tell emitted it\n" in text.replace("\r", "")
    assert "does not: to is 'out', and when.to is 'in'" in text


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_program_gets_what_the_broker_answers(broker: BrokerProcess, options: list[str]) -> None:
    ended = why(broker, "e-1", *options)
    assert (ended.returncode, ended.stderr, ended.stdout.count(b"\n")) == (0, b"", 1)
    life = json.loads(ended.stdout)
    assert (life["id"], life["source"], [each["rule"] for each in life["caused"]]) == ("e-1", "stream:in", ["tell"])


def test_of_several_events_with_one_id_one_must_be_named(broker: BrokerProcess) -> None:
    ended = why(broker, "e-2")
    assert (ended.returncode, ended.stdout) == (exits.REFUSED, b"")
    assert ended.stderr.decode().splitlines() == [
        "courier: 2 events have id 'e-2'; say which:",
        "  --source stream:in  (sequence 4, in)",
        "  --source stream:other  (sequence 3, other)",
    ]
    for option, name in (("--stream", "other"), ("--source", "stream:other")):
        ended = why(broker, "e-2", option, name)
        assert json.loads(ended.stdout)["stream"] == "other", ended


def test_an_event_that_is_not_there_is_said_to_be_missing(broker: BrokerProcess) -> None:
    ended = why(broker, "never")
    assert (ended.returncode, ended.stdout) == (exits.REFUSED, b"")
    assert ended.stderr == b"courier: no event with id 'never' is stored, or none that you may see\n"


@pytest.mark.parametrize("arguments", [[], ["e", "--seq", "1"], ["--seq", "1", "--stream", "s"], ["--seq", "0"]])
def test_a_wrong_usage_is_told(arguments: list[str]) -> None:
    ended = courier("why", *arguments)
    assert (ended.returncode, ended.stdout) == (exits.USAGE, b"")
    assert ended.stderr


def test_ids_with_any_character_are_asked_for(broker: BrokerProcess) -> None:
    for event_id in ("a/b", "ü?#& %2F", "100%"):
        assert courier("pub", "odd", "1", "--id", event_id, "--url", broker.url).returncode == 0
        ended = why(broker, event_id)
        assert json.loads(ended.stdout)["id"] == event_id, ended

"""`courier dead`: listed, shown, brought back or let go, one by one or by a filter."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import StartBroker
from tests.support.process import BrokerProcess, courier
from tests.support.publish import publish, publish_all
from tests.support.terminal import courier_on_terminal, shown_by


def lines(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def broker(impatient_broker: BrokerProcess) -> BrokerProcess:
    """A broker with five dead letters: three of `jobs/a`, two of `jobs/b`."""
    publish_all(impatient_broker, [("jobs/a", f"a-{number}") for number in range(3)])
    publish(impatient_broker, "jobs/b", "b-0", "b-1", type="other", payload={"big": 123456789012345678901234567890})
    ended = courier("sub", "jobs/*", "-n", "5", "--no-ack", "--url", impatient_broker.url)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return impatient_broker


def dead(broker: BrokerProcess, *arguments: str) -> list[Any]:
    ended = courier("dead", *arguments, "--url", broker.url)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return lines(ended.stdout)


def ids(broker: BrokerProcess, *arguments: str) -> list[str]:
    return [letter["id"] for letter in dead(broker, "list", *arguments)]


def test_dead_letters_are_listed_and_filtered(broker: BrokerProcess) -> None:
    assert ids(broker) == ["a-0", "a-1", "a-2", "b-0", "b-1"]
    assert ids(broker, "--stream", "jobs/b") == ["b-0", "b-1"]
    assert ids(broker, "--type", "other", "-n", "1") == ["b-0"]
    assert ids(broker, "--reason", "went away", "--stream", "*/a", "-n", "2") == ["a-0", "a-1"]
    assert ids(broker, "--reason", "nothing like it") == []
    code, text = shown_by("dead", "list", "--url", broker.url, env={"NO_COLOR": "1"}, columns=120)
    head, *rows = text.splitlines()
    assert code == 0
    assert head.split() == ["seq", "stream", "type", "id", "attempts", "dead", "since", "reason"]
    assert [row.split()[:4] for row in rows[2:4]] == [
        ["3", "jobs/a", "sprint.assign", "a-2"],
        ["4", "jobs/b", "other", "b-0"],
    ]


def test_one_is_shown_with_its_envelope_as_it_came(broker: BrokerProcess) -> None:
    ended = courier("dead", "show", "4", "--url", broker.url)
    assert ended.returncode == 0
    assert b'"payload":{"big":123456789012345678901234567890}' in ended.stdout
    code, text = shown_by("dead", "show", "4", "--url", broker.url, env={"NO_COLOR": "1"})
    assert code == 0
    assert "id:           b-0\n" in text
    assert '"payload":{"big":123456789012345678901234567890}' in text


def test_one_by_one(broker: BrokerProcess) -> None:
    assert dead(broker, "replay", "1", "2", "--dry-run") == [
        {"seq": 1, "would": "replay"},
        {"seq": 2, "would": "replay"},
    ]
    assert dead(broker, "replay", "1", "2") == [{"seq": 1, "redrivenAs": 6}, {"seq": 2, "redrivenAs": 7}]
    assert dead(broker, "discard", "4", "--because", "a bug") == [{"seq": 4, "discarded": True}]
    assert ids(broker) == ["a-2", "b-1"]
    (receipt,) = lines(courier("receipts", "jobs/b", "b-0", "--url", broker.url).stdout)
    assert receipt["reason"].startswith("discarded: a bug; was: ")
    ended = courier("dead", "replay", "4", "--url", broker.url)
    assert (ended.returncode, ended.stdout) == (65, b"")
    assert ended.stderr == b"courier: not_found: there is no dead letter with sequence 4\n"


def test_all_that_match(broker: BrokerProcess) -> None:
    assert dead(broker, "replay", "--stream", "jobs/a", "--dry-run") == [{"matching": 3}]
    assert dead(broker, "replay", "--stream", "jobs/a", "--rate", "1000") == [{"done": 3, "total": 3, "finished": True}]
    assert ids(broker) == ["b-0", "b-1"]
    assert dead(broker, "discard", "--all", "--because", "enough", "--dry-run") == [{"matching": 2}]
    assert dead(broker, "discard", "--all", "--because", "enough") == [{"done": 2, "total": 2, "finished": True}]
    assert ids(broker) == []
    ended = courier("dead", "replay", "--all", "--url", broker.url)
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert ended.stderr == b"courier: there are no dead letters that match\n"


def test_somebody_at_a_terminal_is_asked_first(broker: BrokerProcess) -> None:
    command = ["dead", "replay", "--stream", "jobs/*", "--url", broker.url]
    with courier_on_terminal(*command) as running:
        running.until("replay 5 dead letters? [y/N]: ")
        running.typed("n\n")
        code, text = running.end()
    assert code == 1
    assert text.endswith("courier: nothing was done\n")
    with courier_on_terminal(*command) as running:
        running.until("[y/N]: ")
        running.until_it_waits_for_input()
        running.interrupt()
        assert running.end()[0] == 130
    assert len(ids(broker)) == 5
    with courier_on_terminal(*command, "--rate", "2") as running:
        running.until("[y/N]: ")
        running.typed("y\n")
        running.until("replay [############------------------]  40%  2 of 5")
        code, text = running.end()
    assert code == 0
    assert text.endswith("replayed\x1b[0m 5 dead letters\n")
    assert ids(broker) == []


def test_with_yes_nobody_is_asked(broker: BrokerProcess) -> None:
    code, text = shown_by(
        "dead", "discard", "--all", "--because", "x", "--yes", "--url", broker.url, env={"TERM": "dumb"}
    )
    assert (code, text) == (0, "discarded 5 dead letters\n")


def test_acting_needs_the_scope_of_an_operator(broker_process: StartBroker) -> None:
    broker = broker_process(config={"auth": {"tokens": [{"token": "t", "scopes": ["streams:*:subscribe"]}]}})
    ended = courier("dead", "replay", "--all", "--url", broker.url, "--token", "t")
    assert (ended.returncode, ended.stdout) == (65, b"")
    assert b"courier token new NAME --scope 'admin:*' creates one" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "say which ones"),
        (["discard", "--because", "x"], "say which ones"),
        (["replay", "1", "--all"], "not several of them"),
        (["replay", "--all", "--type", "t"], "not several of them"),
        (["replay", "1", "--rate", "5"], "--rate is for filters and --all"),
        (["replay", "--all", "--rate", "0.5"], "Invalid value for '--rate'"),
        (["discard", "1"], "Missing option '--because'"),
        (["show", "zero"], "is not a valid integer"),
        (["retry", "1"], "did you mean 'courier dead replay'?"),
    ],
)
def test_a_wrong_call_says_what_was_meant(arguments: list[str], said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "broker", "dead", *arguments], capture_output=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert said in ended.stderr.decode()

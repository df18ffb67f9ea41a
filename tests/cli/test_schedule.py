"""`courier schedule`: what is published later, listed and cancelled."""

import json
from typing import Any

import pytest

from tests.conftest import StartBroker
from tests.support.process import BrokerProcess, courier, until
from tests.support.terminal import shown_by

PLAIN = {"NO_COLOR": "1"}


@pytest.fixture
def broker(broker_process: StartBroker) -> BrokerProcess:
    return broker_process()


def ran(broker: BrokerProcess, *arguments: str) -> list[Any]:
    """The lines of a command that did what it was to do."""
    ended = courier("schedule", *arguments, "--url", broker.url)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_what_is_added_is_published_when_it_is_due_and_a_repetition_adds_nothing(broker: BrokerProcess) -> None:
    (first,) = ran(broker, "add", "jobs", '{"n": 1}', "--in", "50ms", "--id", "a")
    (again,) = ran(broker, "add", "jobs", '{"n": 1}', "--in", "2h", "--id", "a")
    assert (again["id"], again["duplicate"], again["fireAt"]) == (first["id"], True, first["fireAt"])
    ended = courier("sub", "jobs", "-n", "1", "--url", broker.url)
    assert json.loads(ended.stdout)["payload"] == {"n": 1}


def test_what_waits_is_listed_and_cancelled_once(broker: BrokerProcess) -> None:
    ran(broker, "add", "jobs/b", "2", "--in", "1d", "--id", "late")
    ran(broker, "add", "jobs/a", "1", "--at", "2099-01-01T00:00:00Z")
    ran(broker, "add", "jobs/a", "1", "--in", "1.5h", "--id", "soon")
    assert [each["eventId"] for each in ran(broker, "list")][:2] == ["soon", "late"]
    assert [each["eventId"] for each in ran(broker, "list", "--stream", "jobs/b")] == ["late"]
    assert len(ran(broker, "list", "-n", "1")) == 1
    assert ran(broker, "cancel", "1") == [{"id": 1, "cancelled": True, "status": "cancelled"}]
    assert ran(broker, "cancel", "1") == [{"id": 1, "cancelled": False, "status": "cancelled"}]
    code, text = shown_by("schedule", "list", "--url", broker.url, env=PLAIN)
    assert code == 0
    assert text.splitlines()[0].split() == ["id", "due", "stream", "event", "attempts", "error"]
    assert "soon" in text.splitlines()[1]


def test_what_has_been_published_cannot_be_cancelled_and_the_exit_code_says_so(broker: BrokerProcess) -> None:
    ran(broker, "add", "jobs", "1", "--in", "0s")

    def is_fired() -> bool:
        return ran(broker, "list") == []

    until(is_fired)
    ended = courier("schedule", "cancel", "1", "--url", broker.url)
    assert (ended.returncode, json.loads(ended.stdout)["status"]) == (65, "fired")


def test_something_recurs_until_it_is_cancelled_by_its_name(broker: BrokerProcess) -> None:
    ran(broker, "add", "jobs", "{}", "--every", "100ms", "--id", "tick", "--from", "me")
    ran(
        broker,
        "add",
        "jobs/n",
        "{}",
        "--cron",
        "30 3 * * *",
        "--tz",
        "Europe/Berlin",
        "--id",
        "night",
        "--missed",
        "skip",
    )
    ended = courier("sub", "jobs", "-n", "3", "--url", broker.url)
    assert len({json.loads(line)["id"] for line in ended.stdout.splitlines()}) == 3
    night, tick = ran(broker, "list", "--recurring")
    assert (night["name"], night["cron"], night["tz"], night["missed"]) == (
        "night",
        "30 3 * * *",
        "Europe/Berlin",
        "skip",
    )
    assert (tick["everyMs"], tick["missed"]) == (100, "once")
    assert tick["lastAt"] < tick["nextAt"]
    assert ran(broker, "cancel", "tick") == [{"name": "tick", "deleted": True}]
    code, text = shown_by("schedule", "list", "--recurring", "--url", broker.url, env=PLAIN)
    assert (code, len(text.splitlines())) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["add", "jobs", "{}"], "say when, by one of --in, --at, --every and --cron"),
        (["add", "jobs", "{}", "--in", "5m", "--every", "5m"], "say when, by one of"),
        (["add", "jobs", "{}", "--in", "5"], "'5' is not a duration like 500ms, 30s, 5m, 2h or 1d"),
        (["add", "jobs", "{}", "--at", "tomorrow"], "is not a time like 2026-02-19T18:30:00Z"),
        (["add", "jobs", "{}", "--at", "2026-02-19T18:30:00"], "has no time zone; write 2026-02-19T18:30:00Z for UTC"),
        (["add", "jobs", "{}", "--every", "5m"], "what recurs needs a name"),
        (["add", "jobs", "{}", "--in", "5m", "--tz", "UTC"], "--tz goes with --cron"),
        (["add", "jobs", "{}", "--in", "5m", "--missed", "all"], "--missed goes with --every and --cron"),
        (["add", "jobs", "{", "--in", "5m"], "the payload is not JSON"),
        (["list", "--recurring", "-n", "1"], "--recurring lists all"),
        (["remove", "1"], "there is no command 'remove'"),
    ],
)
def test_what_does_not_fit_together_is_said_before_a_broker_is_asked(arguments: list[str], reason: str) -> None:
    ended = courier("schedule", *arguments)
    assert ended.returncode == 2
    assert reason in " ".join(ended.stderr.decode().split())

"""`courier groups`, and `courier dead --group`: the consumer groups and their own dead letters."""

import json
from typing import Any

import pytest

from tests.support.process import BrokerProcess, courier, until
from tests.support.publish import publish
from tests.support.terminal import courier_on_terminal, shown_by

PLAIN = {"NO_COLOR": "1"}


@pytest.fixture
def broker(impatient_broker: BrokerProcess) -> BrokerProcess:
    """A broker with a group for which two of three events are dead, and a group of a pattern that took one."""
    publish(impatient_broker, "jobs/a", "a-0", "a-1", "a-2")
    for arguments in (("jobs/a", "--group", "strict", "-n", "2", "--nack"), ("jobs/*", "--group", "calm", "-n", "1")):
        ended = courier("sub", *arguments, "--url", impatient_broker.url)
        assert (ended.returncode, ended.stderr) == (0, b"")
    return impatient_broker


def found(broker: BrokerProcess, *arguments: str) -> list[Any]:
    ended = courier(*arguments, "--url", broker.url)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_groups_are_listed_and_those_of_a_stream_in_figures(broker: BrokerProcess) -> None:
    registered = [
        {"group": "strict", "stream": "jobs/a", "since": 0},
        {"group": "calm", "stream": "jobs/*", "since": 0},
    ]
    assert found(broker, "groups") == found(broker, "groups", "list") == registered
    figures = {each.pop("group"): each for each in found(broker, "groups", "jobs/a")}
    assert figures["calm"] == {"position": 1, "depth": 2, "inflight": 0, "subscribers": 0, "dead": 0}
    assert figures["strict"]["dead"] == 2
    code, text = shown_by("groups", "--url", broker.url, env=PLAIN)
    assert (code, text) == (0, "group   stream  since\nstrict  jobs/a      0\ncalm    jobs/*      0\n")
    code, text = shown_by("groups", "jobs/a", "--url", broker.url, env=PLAIN)
    assert text.splitlines()[0].split() == ["group", "position", "depth", "in", "flight", "subs", "dead"]
    assert text.splitlines()[1].split() == ["calm", "1", "2", "0", "0", "0"]


def test_a_group_is_deleted_once(broker: BrokerProcess) -> None:
    assert found(broker, "groups", "delete", "calm", "--stream", "jobs/*") == [
        {"group": "calm", "stream": "jobs/*", "deleted": True}
    ]
    assert [each["group"] for each in found(broker, "groups")] == ["strict"]
    ended = courier("groups", "delete", "calm", "--stream", "jobs/*", "--url", broker.url)
    assert (ended.returncode, ended.stdout) == (65, b"")
    assert b"courier: not_found: there is no group 'calm' of 'jobs/*'" in ended.stderr
    code, text = shown_by("groups", "delete", "strict", "--stream", "jobs/a", "--url", broker.url, env=PLAIN)
    assert (code, text) == (0, "deleted strict of jobs/a\n")
    code, text = shown_by("groups", "--url", broker.url, env=PLAIN)
    assert (code, text) == (0, "courier: there are no groups; 'courier sub STREAM --group NAME' makes one\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("groups", "jobs/*"), b"is a pattern"),
        (("groups", "delete", "calm"), b"Missing option '--stream'"),
        (("consumer-groups",), b"did you mean 'courier groups'?"),
        (("dead", "replay", "--group", "strict"), b"say which ones"),
        (("sub", "jobs/a", "--from", "now"), b"--from goes with --group"),
    ],
)
def test_what_was_not_meant_is_refused_with_what_was(arguments: tuple[str, ...], says: bytes) -> None:
    ended = courier(*arguments)
    assert ended.returncode == 2
    assert says in ended.stderr


def test_the_dead_letters_of_a_group_are_listed_shown_replayed_and_discarded(broker: BrokerProcess) -> None:
    def of_group(*arguments: str) -> list[Any]:
        return found(broker, "dead", *arguments, "--group", "strict")

    assert found(broker, "dead", "list") == []
    assert [each["id"] for each in of_group("list")] == ["a-0", "a-1"]
    assert of_group("show", "1")[0]["envelope"]["id"] == "a-0"
    assert of_group("replay", "1", "--dry-run") == [{"seq": 1, "would": "replay"}]
    assert of_group("replay", "1") == [{"seq": 1, "redrivenAs": 1}]
    assert of_group("discard", "--all", "--because", "a test", "--dry-run") == [{"matching": 1}]
    assert of_group("discard", "2", "--because", "a test") == [{"seq": 2, "discarded": True}]
    assert of_group("list") == []
    taken = courier("sub", "jobs/a", "--group", "strict", "-n", "2", "--url", broker.url)
    assert sorted(json.loads(line)["id"] for line in taken.stdout.splitlines()) == ["a-0", "a-2"]


def test_a_replay_to_a_group_says_no_new_sequence(broker: BrokerProcess) -> None:
    code, text = shown_by("dead", "replay", "2", "--group", "strict", "--url", broker.url, env=PLAIN)
    assert (code, text) == (0, "replayed 2\n")
    code, text = shown_by("dead", "replay", "--all", "--yes", "--group", "strict", "--url", broker.url, env=PLAIN)
    assert code == 0
    assert text.endswith("replayed 1 dead letter\n")


def test_a_new_group_may_begin_now(broker: BrokerProcess) -> None:
    command = ["sub", "jobs/a", "--group", "late", "--from", "now", "-n", "1"]
    with courier_on_terminal(*command, "--url", broker.url, env=PLAIN) as running:
        until(lambda: len(found(broker, "groups")) == 3)
        publish(broker, "jobs/a", "a-3")
        code, text = running.end()
    assert code == 0
    assert text.split()[:4] == ["4", "jobs/a", "sprint.assign", "a-3"]

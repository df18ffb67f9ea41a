"""`courier tail`, `streams`, `top` and `receipts`: looking, with nothing consumed."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import StartBroker
from tests.support.process import BrokerProcess, courier, environment, until
from tests.support.publish import publish, publish_all
from tests.support.terminal import courier_on_terminal, shown_by

ENTER, LEAVE, HOME = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H"


def lines(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def env(broker: BrokerProcess, **more: str) -> dict[str, str]:
    return {"COURIER_URL": broker.url, **more}


@contextmanager
def going_on(broker: BrokerProcess, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that does not end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(env(broker)),
        bufsize=0,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


# tail


def test_tail_shows_what_was_stored_and_what_comes_and_takes_nothing(broker: BrokerProcess) -> None:
    publish(broker, "a/b", "old-1", "old-2")
    with going_on(broker, "tail", "a/*", "--from", "2") as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["seq"] == 2
        publish(broker, "elsewhere", "x")
        publish(broker, "a/c", "new")
        found = json.loads(tail.stdout.readline())
        assert (found["stream"], found["seq"], found["envelope"]["id"]) == ("a/c", 4, "new")
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == 130
    (stats,) = lines(courier("streams", "a/b", env=env(broker)).stdout)
    assert (stats["depth"], stats["inflight"], stats["totals"]["out"]) == (2, 0, 0)


def test_tail_ends_with_the_broker_unless_it_is_to_reconnect(broker_process: StartBroker) -> None:
    broker = broker_process()
    publish(broker, "s", "e-1")
    port = broker.port
    with (
        going_on(broker, "tail", "s", "--from", "1") as once,
        going_on(broker, "tail", "s", "--from", "1", "-n", "2", "--reconnect") as again,
    ):
        assert once.stdout is not None
        assert again.stdout is not None
        for each in (once, again):
            assert json.loads(each.stdout.readline())["seq"] == 1  # type: ignore[union-attr]
        assert broker.terminate_and_wait() == 0
        assert once.wait(30) == 75
        assert once.stderr is not None
        assert once.stderr.read() == b"courier: the broker closed the connection\n"
        successor = broker_process(data=broker.data, port=port)
        publish(successor, "s", "e-2")
        assert json.loads(again.stdout.readline())["envelope"]["id"] == "e-2"
        assert again.wait(30) == 0
        assert again.stderr is not None
        assert b"; trying again\n" in again.stderr.read()


# streams


def test_streams_are_listed_in_figures(broker: BrokerProcess) -> None:
    for name, count in (("b", 1), ("a/b", 3), ("a/c", 2)):
        publish(broker, name, *(f"e-{number}" for number in range(count)))
    found = lines(courier("streams", env=env(broker)).stdout)
    assert [each["stream"] for each in found] == ["a/b", "a/c", "b"]
    assert found[0].keys() >= {"depth", "inflight", "rateIn", "rateOut", "latP50", "latP95", "oldestMs", "subscribers"}
    by_depth = lines(courier("streams", "a/*", "--sort", "depth", env=env(broker)).stdout)
    assert [(each["stream"], each["depth"]) for each in by_depth] == [("a/b", 3), ("a/c", 2)]
    code, text = shown_by("streams", columns=60, env=env(broker, NO_COLOR="1"))
    assert code == 0
    assert [line.split()[:3] for line in text.splitlines()[1:]] == [
        ["a/b", "3", "0"],
        ["a/c", "2", "0"],
        ["b", "1", "0"],
    ]
    assert max(map(len, text.splitlines())) <= 60


def test_where_there_are_no_streams_it_says_so(broker: BrokerProcess) -> None:
    ended = courier("streams", env=env(broker))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    code, text = shown_by("streams", env=env(broker))
    assert (code, text) == (0, "courier: there are no streams yet; 'courier pub STREAM JSON' makes one\n")


# top


def test_top_is_drawn_in_place_fits_the_window_and_leaves_the_terminal_as_it_was(broker: BrokerProcess) -> None:
    publish_all(broker, [(f"a/long/name/of/a/stream/{number:02d}", "e-1") for number in range(20)])
    with courier_on_terminal("top", "--interval", "0.1", columns=60, lines=10, env=env(broker, NO_COLOR="1")) as top:
        top.until(HOME, times=3)
        top.resize(100, 30)
        top.until("a/long/name/of/a/stream/19")
        top.until(HOME, times=top.seen.count(HOME) + 2)
        top.interrupt()
        code, text = top.end()
    assert code == 130
    assert text.startswith(ENTER)
    assert text.endswith(LEAVE)
    assert text.count(ENTER) == text.count(LEAVE) == 1
    first = re.sub(r"\x1b\[[KJ]", "", text.removeprefix(ENTER).split(HOME)[1]).splitlines()
    assert len(first) <= 10
    assert max(map(len, first)) <= 60
    assert first[0].startswith("20 streams  depth 20  in flight 0  ")
    assert first[-1] == "13 more"
    large = re.sub(r"\x1b\[[KJ]", "", text.removesuffix(LEAVE).split(HOME)[-2]).splitlines()
    assert len(large) == 22


def test_top_without_a_terminal_prints_lines_of_json(broker: BrokerProcess) -> None:
    for name in ("a", "b"):
        publish(broker, name, "e-1")
    ended = courier("top", "-n", "2", "--interval", "0.1", "--sort", "name", env=env(broker))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert [each["stream"] for each in lines(ended.stdout)] == ["a", "b", "a", "b"]
    ended = courier("top", "a", "--once", env=env(broker))
    assert [each["stream"] for each in lines(ended.stdout)] == ["a"]


def test_one_look_at_top_is_printed_and_stays(broker: BrokerProcess) -> None:
    publish(broker, "a", "e-1")
    code, text = shown_by("top", "--once", env=env(broker, NO_COLOR="1"))
    assert code == 0
    assert "\x1b" not in text
    totals, head, row = text.splitlines()
    assert totals.startswith("1 stream  depth 1  ")
    assert head.startswith("stream  depth")
    assert row.startswith("a ")


# receipts


def test_a_receipt_tells_what_became_of_an_event(broker: BrokerProcess) -> None:
    publish(broker, "a/b", "e/1", "e/1")
    (receipt,) = lines(courier("receipts", "a/b", "e/1", env=env(broker)).stdout)
    assert (receipt["seq"], receipt["state"], receipt["duplicates"]) == (1, "pending", 1)
    (same,) = lines(courier("receipts", "--source", "stream:a/b", "e/1", env=env(broker)).stdout)
    assert same == receipt
    code, text = shown_by("receipts", "a/b", "e/1", env=env(broker, NO_COLOR="1"))
    assert code == 0
    told = dict(re.split(r": +", line, maxsplit=1) for line in text.splitlines())
    assert (told["event"], told["stream"], told["state"]) == ("e/1, sprint.assign", "a/b", "pending")
    assert told["duplicates"].startswith("1, the last ")


def test_an_event_that_never_came_has_no_receipt(broker: BrokerProcess) -> None:
    ended = courier("receipts", "a/b", "nothing", env=env(broker))
    assert (ended.returncode, ended.stdout) == (65, b"")
    assert ended.stderr.startswith(b"courier: not_found: no event 'nothing' was accepted from 'stream:a/b'")


def test_a_receipt_is_asked_for_by_stream_and_id_or_by_source_and_id() -> None:
    for arguments in (
        ["receipts"],
        ["receipts", "s"],
        ["receipts", "--source", "x"],
        ["receipts", "s", "e", "--source", "x"],
    ):
        ended = courier(*arguments)
        assert (ended.returncode, ended.stdout) == (2, b"")
        assert b"Error: " in ended.stderr


def test_what_was_refused_is_listed_and_found_by_its_source_and_id(broker: BrokerProcess, tmp_path: Path) -> None:
    assert shown_by("receipts", "--rejected", env=env(broker, NO_COLOR="1")) == (
        0,
        "courier: nothing that was refused is kept\n",
    )
    file = tmp_path / "events.ndjson"
    file.write_text('{"event_id": "evt_1"}\n{"event_id": "evt_2"}\n')
    assert courier("import", str(file), env=env(broker)).returncode == 65
    found = lines(courier("receipts", "--rejected", env=env(broker)).stdout)
    assert [(each["source"], each["id"], each["state"]) for each in found] == [
        ("local", "evt_1", "rejected"),
        ("local", "evt_2", "rejected"),
    ]
    assert lines(courier("receipts", "--rejected", "--source", "else", env=env(broker)).stdout) == []
    assert lines(courier("receipts", "--source", "local", "evt_2", env=env(broker)).stdout) == found[1:]
    code, text = shown_by("receipts", "--source", "local", "evt_2", env=env(broker, NO_COLOR="1"))
    told = dict(re.split(r": +", line, maxsplit=1) for line in text.splitlines())
    assert (code, told["refused"], told["state"], told["body"]) == (0, "evt_2", "rejected", '{"event_id": "evt_2"}')
    assert told["reason"].startswith("invalid_envelope: ")
    ended = courier("receipts", "--rejected", "s", env=env(broker))
    assert (ended.returncode, b"--rejected lists" in ended.stderr) == (2, True)


def test_sources_are_listed_with_what_went_wrong(broker_process: StartBroker, broker: BrokerProcess) -> None:
    nothing = shown_by("sources", env=env(broker, NO_COLOR="1"))
    assert nothing == (
        0,
        "courier: there are no sources; they are configured under sources.rest and sources.websocket\n",
    )
    source = {"name": "weather", "stream": "feeds/weather", "url": "http://127.0.0.1:1/x"}
    pulling = broker_process(data=broker.data.parent / "pulling", config={"sources": {"rest": [source]}})
    until(lambda: lines(courier("sources", env=env(pulling)).stdout)[0]["errors"] > 0)
    (found,) = lines(courier("sources", "--json", env=env(pulling)).stdout)
    assert (found["name"], found["kind"], found["up"], found["cursor"]) == ("weather", "rest", False, None)
    code, text = shown_by("sources", env=env(pulling, NO_COLOR="1"), columns=160)
    head, row = text.splitlines()
    assert (code, head.split()) == (
        0,
        ["source", "kind", "state", "events", "errors", "cursor", "next", "attempt", "last", "error"],
    )
    assert row.split()[:2] == ["weather", "rest"]
    assert "Cannot connect to host 127.0.0.1" in row

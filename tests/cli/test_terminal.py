"""On a terminal there are lines for people; everybody else gets JSON lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import BrokerProcess, courier, environment
from tests.support.terminal import OnTerminal, courier_on_terminal, shown_by

ESCAPE = "\x1b"
HEAD = "stream depth in flight in/s out/s p50 p95 oldest subs dead last"


def url(broker: BrokerProcess) -> dict[str, str]:
    return {"COURIER_URL": broker.url}


def pub(broker: BrokerProcess, *arguments: str, stdin: bytes = b"") -> None:
    assert courier("pub", *arguments, stdin=stdin, env=url(broker)).returncode == 0


def test_a_person_reads_words_in_colour(broker: BrokerProcess) -> None:
    env = url(broker)
    code, text = shown_by("pub", "s", '{"a": 1}', "--id", "e-1", env=env)
    assert (code, text) == (0, f"{ESCAPE}[32mstored{ESCAPE}[0m e-1 as 1\n")
    code, text = shown_by("sub", "s", "-n", "1", env=env)
    assert (code, text) == (0, f'{ESCAPE}[36m1{ESCAPE}[0m  {ESCAPE}[1ms{ESCAPE}[0m  message  e-1  {{"a":1}}\n')


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_colour_and_control_are_left_out_where_they_are_not_wanted(broker: BrokerProcess, env: dict[str, str]) -> None:
    code, text = shown_by("pub", "s", "1", "--id", "e-1", env=url(broker) | env)
    assert (code, text) == (0, "stored e-1 as 1\n")
    code, text = shown_by("streams", env=url(broker) | env)
    assert code == 0
    assert ESCAPE not in text
    assert " ".join(text.splitlines()[0].split()) == HEAD


def test_json_is_there_for_the_asking(broker: BrokerProcess) -> None:
    code, text = shown_by("pub", "s", "1", "--id", "e-1", "--json", env=url(broker))
    assert (code, json.loads(text)) == (0, {"id": "e-1", "seq": 1, "duplicate": False})


def test_what_a_producer_sent_cannot_control_the_terminal(broker: BrokerProcess) -> None:
    pub(broker, "s", stdin='"\x7f\u009b2J\u202e"'.encode())
    pub(broker, "s", '"\\u001b[2J"')
    for arguments in (("sub", "s", "-n", "2", "--no-ack"), ("tail", "s", "--from", "1", "-n", "2")):
        code, text = shown_by(*arguments, env=url(broker) | {"NO_COLOR": "1"})
        assert code == 0
        assert ESCAPE not in text
        assert '"\\u007f\\u009b2J\\u202e"' in text
        assert all(char.isprintable() or char == "\n" for char in text)


def test_a_payload_conflict_is_explained(broker: BrokerProcess) -> None:
    pub(broker, "s", "1", "--id", "e-1", "--ts", "2026-02-19T18:30:00Z")
    plain = url(broker) | {"NO_COLOR": "1"}
    code, text = shown_by("pub", "s", "1", "--id", "e-1", "--ts", "2026-02-19T18:30:00Z", env=plain)
    assert (code, text) == (0, "duplicate e-1 is there already as 1\n")
    code, text = shown_by("pub", "s", "1", "--id", "e-1", env=plain)
    assert code == 0
    assert "its bytes differ" in text
    assert "--ts" in text


def test_lines_that_are_published_are_counted_while_they_go(broker: BrokerProcess) -> None:
    read, write = os.pipe()
    try:
        with courier_on_terminal("pub", "s", "-", stdin=read, env=url(broker)) as running:
            os.write(write, b"1\n2\n")
            running.until("\r\x1b[Kpublishing 2, ")
            os.write(write, b"nonsense\n3\n")
            running.until("courier: line 3: not JSON")
            os.close(write)
            write = -1
            code, text = running.end()
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)
    assert code == 65
    assert text.endswith(f"\n{ESCAPE}[32mstored{ESCAPE}[0m 3 events, 1 refused\n")


def test_progress_is_for_terminals_and_stays_out_of_the_data(broker: BrokerProcess, tmp_path: Path) -> None:
    ended = courier("pub", "s", "-", stdin=b"1\n2\n", env=url(broker))
    assert (ended.returncode, ended.stderr) == (0, b"")
    answers = tmp_path / "answers"
    with answers.open("wb") as file, (tmp_path / "stdin").open("w+b") as lines:
        lines.write(b"1\n2\n")
        lines.seek(0)
        running = courier_on_terminal("pub", "s", "-", stdin=lines.fileno(), stdout=file.fileno(), env=url(broker))
        with running:
            code, text = running.end()
    assert code == 0
    assert "publishing 2, " in text, "stderr is a terminal"
    assert [json.loads(line)["seq"] for line in answers.read_text().splitlines()] == [3, 4]


def test_backup_and_verify_show_how_far_they_are(broker: BrokerProcess, tmp_path: Path) -> None:
    pub(broker, "s", "1")
    copy = tmp_path / "copy.db"
    code, text = shown_by("backup", str(copy), "--data", str(broker.data))
    assert code == 0
    assert "backing up [##############################] 100%" in text
    assert text.endswith(f"{copy}: {copy.stat().st_size / 1024:.1f} KiB\n")
    code, text = shown_by("verify", str(copy))
    assert code == 0
    assert "verifying [" in text
    assert text.endswith(f"{copy}: {ESCAPE}[32mwhole{ESCAPE}[0m, 1 event, last sequence 1\n")


def test_backup_and_verify_are_lines_of_json_for_programs(broker: BrokerProcess, tmp_path: Path) -> None:
    pub(broker, "s", "1")
    copy = tmp_path / "copy.db"
    ended = courier("backup", str(copy), "--data", str(broker.data))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout) == {"file": str(copy), "bytes": copy.stat().st_size}
    ended = courier("verify", str(copy))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout) == {"file": str(copy), "whole": True, "events": 1, "emptied": 0, "lastSeq": 1}


@pytest.mark.parametrize("command", [["streams"], ["config", "show"], ["tail", "**", "--from", "1"]])
def test_a_reader_that_goes_away_ends_it_quietly(broker: BrokerProcess, command: list[str]) -> None:
    for number in range(3):
        pub(broker, f"s/{number}", json.dumps("x" * 70_000))
    options = [] if command[0] == "config" else ["--url", broker.url]
    running = subprocess.Popen(
        [sys.executable, "-m", "broker", *command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    assert running.stdout is not None
    running.stdout.close()
    running.stdout = None
    _, stderr = running.communicate(timeout=30)
    assert (running.returncode, stderr) == (141, b"")


@pytest.mark.parametrize("command", [["sub", "s"], ["tail", "s", "--from", "1"], ["top"], ["pub", "s", "-"]])
def test_ctrl_c_ends_it_without_a_trace(broker: BrokerProcess, command: list[str]) -> None:
    pub(broker, "s", '"before"')
    with courier_on_terminal(*command, env=url(broker)) as running:
        if command[0] == "pub":
            running.typed("1\n")
            running.until("publishing 1")
        else:
            running.until("1 stream " if command[0] == "top" else "before")
        running.interrupt()
        code, text = running.end()
    assert code == 130
    assert "Traceback" not in text
    assert "Aborted" not in text
    assert ("start again from line 2" in text) == (command[0] == "pub")


def test_a_shell_sees_one_command_like_any_other(broker: BrokerProcess) -> None:
    """With `| head`, and colour that is not there because stdout is a pipe."""
    pub(broker, "s", stdin=b"\n".join(b"%d" % number for number in range(50)))
    line = f"{sys.executable} -m broker tail s --from 1 | head -n 2"
    with OnTerminal(["sh", "-c", line], env=url(broker)) as running:
        code, text = running.end()
    assert code == 0
    assert [json.loads(each)["seq"] for each in text.splitlines()] == [1, 2]

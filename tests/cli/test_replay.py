"""`courier replay`: recorded events, in whatever order and however often, give the same ledger."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartBroker
from tests.support.events import AWKWARD_PAYLOADS, envelope, raw_envelope
from tests.support.ledger import rows
from tests.support.process import PATIENCE_SECONDS, BrokerProcess, courier, environment, until
from tests.support.terminal import shown_by

STREAMS = ("feeds/a", "feeds/b")
WHAT = "stream, type, source_system, source_event_id, source_emitted_at, envelope, payload_sha256, process_state"


def recorded(count: int) -> list[bytes]:
    """Lines as they were recorded: envelopes, and requests with an envelope in them, on two streams."""
    lines = []
    for number in range(count):
        to = STREAMS[number % 2]
        whole = envelope(f"e-{number}", to, ts=f"2025-10-18T19:55:{number % 60:02}Z", payload={"n": number})
        lines.append(json.dumps({"to": to, "envelope": whole} if number % 3 == 0 else whole).encode())
    return lines


def written(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def replayed(broker: BrokerProcess, *arguments: str, stdin: bytes = b"", code: int = 0) -> dict[str, Any]:
    ended = courier("replay", *arguments, "--url", broker.url, stdin=stdin)
    assert ended.returncode == code, ended.stderr
    (line,) = ended.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def ledger(broker: BrokerProcess) -> list[Any]:
    """What the ledger holds, but for the order of arrival and the counters."""
    return sorted(rows(broker.data, WHAT))


def test_a_file_that_is_replayed_twice_adds_nothing(broker: BrokerProcess, tmp_path: Path) -> None:
    file = str(written(tmp_path / "events.ndjson", recorded(2_500)))
    nothing = {"file": file, "skipped": 0, "refused": 0, "conflicts": 0}
    assert replayed(broker, file) == {**nothing, "stored": 2_500, "duplicates": 0}
    first = ledger(broker)
    assert replayed(broker, file) == {**nothing, "stored": 0, "duplicates": 2_500}
    assert ledger(broker) == first
    assert len(first) == 2_500


def test_out_of_order_and_repeated_lines_give_the_same_ledger(broker_process: StartBroker, tmp_path: Path) -> None:
    """The same rows but for their sequence, and for how often each was seen."""
    lines = recorded(1_500)
    in_order = broker_process(data=tmp_path / "in-order")
    replayed(in_order, str(written(tmp_path / "events.ndjson", lines)))
    rng = random.Random(20260219)
    shuffled = [*lines, *rng.choices(lines, k=1_500)]
    rng.shuffle(shuffled)
    at_odds = broker_process(data=tmp_path / "at-odds")
    counts = replayed(at_odds, str(written(tmp_path / "shuffled.ndjson", shuffled)))
    assert (counts["stored"], counts["duplicates"], counts["conflicts"]) == (1_500, 1_500, 0)
    assert ledger(at_odds) == ledger(in_order)
    assert rows(at_odds.data, "sum(duplicate_count)") == [1_500]
    assert rows(at_odds.data) != rows(in_order.data), "the order of arrival is another one"


def test_stdin_is_a_feed_too_and_every_byte_is_kept(broker: BrokerProcess) -> None:
    sent = [raw_envelope(f"e-{at}", payload) for at, payload in enumerate(AWKWARD_PAYLOADS) if b"\n" not in payload]
    assert replayed(broker, "-", stdin=b"\n".join(sent))["stored"] == len(sent)
    assert rows(broker.data, "envelope") == sent


def test_bad_lines_are_reported_by_their_number_and_the_rest_go_in(broker: BrokerProcess, tmp_path: Path) -> None:
    good = recorded(2)
    lines = [good[0], b"", b"{", b"[]", b'{"id": "x"}', b'{"to": "s", "envelope": {}}', good[1]]
    ended = courier("replay", str(written(tmp_path / "f", lines)), "--url", broker.url)
    assert ended.returncode == 65
    assert json.loads(ended.stdout) == {
        "file": str(tmp_path / "f"), "skipped": 0, "stored": 2, "duplicates": 0, "refused": 4, "conflicts": 0,
    }  # fmt: skip
    said = ended.stderr.decode().splitlines()
    assert [line.partition(": ")[2].partition(":")[0] for line in said] == ["line 3", "line 4", "line 5", "line 6"]
    assert "neither an envelope nor a request" in said[1]


def test_a_replay_that_was_stopped_goes_on_where_it_was(broker: BrokerProcess, tmp_path: Path) -> None:
    """kill -9 in the middle, several times: nothing is lost or there twice, and what was done is not sent again."""
    lines = recorded(8_000)
    file, position = written(tmp_path / "events.ndjson", lines), tmp_path / "events.position"
    command = ["replay", str(file), "--position", str(position), "--url", broker.url]

    def done_lines() -> int:
        return int(json.loads(position.read_bytes())["lines"]) if position.exists() else 0

    def moved(before: int) -> bool:
        return done_lines() > before

    for _ in range(2):
        before = done_lines()
        running = subprocess.Popen(
            [sys.executable, "-m", "broker", *command],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            until(partial(moved, before))
        finally:
            running.send_signal(signal.SIGKILL)
            running.communicate(timeout=PATIENCE_SECONDS)
    done = done_lines()
    counts = replayed(broker, *command[1:4])
    assert counts["skipped"] == done > 0
    assert counts["stored"] + counts["duplicates"] == 8_000 - done
    assert len(rows(broker.data)) == 8_000
    assert replayed(broker, *command[1:4]) == {**counts, "skipped": 8_000, "stored": 0, "duplicates": 0}
    more = recorded(8_001)[-1]
    with file.open("ab") as end:
        end.write(more + b"\n")
    assert replayed(broker, *command[1:4])["stored"] == 1, "a file that has grown goes on behind its old end"
    assert replayed(broker, "-", "--position", str(position), stdin=file.read_bytes())["skipped"] == 8_001


def test_a_position_of_another_file_is_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    lines = recorded(10)
    file, position = written(tmp_path / "events.ndjson", lines), tmp_path / "p"
    replayed(broker, str(file), "--position", str(position))
    for other, reason in (
        ([*lines[:9], b"{}", b"{}"], b"line 10 is not the one that was done; is it the same file?"),
        (lines[:9], b"has less than the 10 lines that were done"),
    ):
        written(file, other)
        ended = courier("replay", str(file), "--position", str(position), "--url", broker.url)
        assert (ended.returncode, reason in ended.stderr) == (1, True), ended.stderr
    position.write_bytes(b"garbage")
    ended = courier("replay", str(file), "--position", str(position), "--url", broker.url)
    assert (ended.returncode, b"holds no position" in ended.stderr) == (1, True)
    ended = courier("replay", str(file), "--position", str(tmp_path / "no" / "p"), "--url", broker.url)
    assert (ended.returncode, b"cannot be written: No such file" in ended.stderr) == (1, True)


def test_a_line_that_is_still_being_written_is_not_done_before_it_has_its_end(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    lines = recorded(3)
    file, position = tmp_path / "events.ndjson", tmp_path / "p"
    options = ("--position", str(position))
    file.write_bytes(b"\n".join(lines)[:-20])
    counts = replayed(broker, str(file), *options, code=65)
    assert (counts["stored"], counts["refused"]) == (2, 1)
    file.write_bytes(b"\n".join(lines))
    counts = replayed(broker, str(file), *options)
    assert (counts["skipped"], counts["stored"], counts["duplicates"]) == (2, 1, 0)
    written(file, recorded(4))
    counts = replayed(broker, str(file), *options)
    assert (counts["skipped"], counts["stored"], counts["duplicates"]) == (2, 1, 1), "what had no end is sent again"
    assert len(rows(broker.data)) == 4


@pytest.mark.parametrize("command", [("replay", "-"), ("pub", STREAMS[0], "-")])
def test_what_cannot_be_read_to_its_end_is_no_success(broker: BrokerProcess, command: tuple[str, ...]) -> None:
    unreadable = os.open("/proc/self/mem", os.O_RDONLY)  # nothing is at its beginning
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "broker", *command, "--url", broker.url],
            stdin=unreadable, env=environment(), capture_output=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
    finally:
        os.close(unreadable)
    assert (ended.returncode, b"cannot be read to its end: Input/output error" in ended.stderr) == (1, True)


def test_a_broker_that_goes_away_and_a_file_that_is_none_are_said(broker: BrokerProcess, tmp_path: Path) -> None:
    file = str(written(tmp_path / "events.ndjson", recorded(3)))
    ended = courier("replay", file, "--url", "http://127.0.0.1:1")
    assert (ended.returncode, b"no broker answers" in ended.stderr) == (69, True)
    assert b"the lines before 1 are stored or reported; the same call again does the rest" in ended.stderr
    for wrong, reason in ((tmp_path / "no", b"cannot be read: No such file"), (tmp_path, b"is a directory")):
        ended = courier("replay", str(wrong), "--url", broker.url)
        assert (ended.returncode, reason in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize("where", ["a file", "a pipe"])
def test_a_person_sees_how_far_it_is_and_what_became_of_it(broker: BrokerProcess, tmp_path: Path, where: str) -> None:
    file = written(tmp_path / "events.ndjson", recorded(6_000))
    name = str(file) if where == "a file" else "-"
    with file.open("rb") as stdin:
        options = {"env": {"NO_COLOR": "1"}, "stdin": stdin.fileno() if name == "-" else None}
        code, text = shown_by("replay", name, "--url", broker.url, **options)
    assert code == 0
    assert text.endswith(f"replayed {name}: 6,000 events stored, 0 were there already, 0 refused\n")
    shares = re.findall(r"replaying (?:\[#*-*\] +\d+%  )?[\d,]+, [\d,.]+/s(?:, [\d.]+ \w+ left)?", text)
    assert shares, text
    assert any(" left" in share and "%" in share for share in shares) == (where == "a file")

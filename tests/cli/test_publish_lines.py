"""`courier pub -`: many events from stdin, in order, with bounded memory, and what is said when some cannot go in."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_client import response, stranger
from tests.conftest import StartBroker
from tests.support import ledger
from tests.support.process import BrokerProcess, courier, environment

TS = "2026-02-19T18:30:00Z"
COUNT = 100_000


def lines(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def peak_bytes(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process; the most memory that it ever had."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def publish_file(broker: BrokerProcess, file: Path) -> int:
    """Publish the lines of a file; the peak of memory."""
    with file.open("rb") as stdin:
        process = subprocess.Popen(
            [sys.executable, "-m", "broker", "pub", "s", "-", "--url", broker.url],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            env=environment(),
        )
        return peak_bytes(process)


def test_a_hundred_thousand_lines_go_in_with_bounded_memory(broker: BrokerProcess, tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    few.write_bytes(b"0\n")
    with many.open("wb") as file:
        file.writelines(b'{"n": %d, "filler": "%b"}\n' % (number, b"x" * 500) for number in range(1, COUNT + 1))
    assert many.stat().st_size > 50 * 2**20
    at_rest = publish_file(broker, few)
    assert publish_file(broker, many) < at_rest + 30 * 2**20
    assert broker.terminate_and_wait() == 0
    assert ledger.rows(broker.data, "count(*)") == [COUNT + 1]
    (last,) = ledger.rows(broker.data, "envelope", f"seq = {COUNT + 1}")
    assert json.loads(last)["payload"]["n"] == COUNT, "they are in order"


def test_a_line_is_stored_when_it_comes_and_not_when_a_batch_is_full(broker: BrokerProcess) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", "pub", "s", "-", "--url", broker.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for number in (1, 2, 3):
            process.stdin.write(b"%d\n" % number)
            assert json.loads(process.stdout.readline())["seq"] == number
        process.stdin.write(b"4")
        process.stdin.close()
        assert json.loads(process.stdout.readline())["seq"] == 4
        assert process.wait(30) == 0


def test_ids_of_ones_own_make_a_repetition_harmless(broker: BrokerProcess) -> None:
    command = ["pub", "s", "-", "--id-prefix", "import-", "--ts", TS, "--url", broker.url]
    first = lines(courier(*command, stdin=b"1\n\n3\n").stdout)
    assert [(each["id"], each["duplicate"]) for each in first] == [("import-1", False), ("import-3", False)]
    again = courier(*command, stdin=b"1\n\n3\n4\n")
    assert (again.returncode, again.stderr) == (0, b"")
    assert lines(again.stdout) == [
        {"id": "import-1", "seq": 1, "duplicate": True},
        {"id": "import-3", "seq": 2, "duplicate": True},
        {"id": "import-4", "seq": 3, "duplicate": False},
    ]


def test_lines_that_are_envelopes_go_in_as_they_are(broker: BrokerProcess) -> None:
    envelope = b'{"id": "e-1", "ts": "%b", "to": "s", "type": "t", "payload": 123456789012345678901}' % TS.encode()
    other = envelope.replace(b'"to": "s"', b'"to": "elsewhere"')
    stdin = b"\n".join([envelope, envelope, other, b'{"id": 1}', b""])
    ended = courier("pub", "s", "-", "--envelope", "--url", broker.url, stdin=stdin)
    assert ended.returncode == 65
    assert [(each["seq"], each["duplicate"]) for each in lines(ended.stdout)] == [(1, False), (1, True)]
    first, second = ended.stderr.decode().splitlines()
    assert first.startswith("courier: line 3: invalid_envelope: envelope.to is 'elsewhere'")
    assert second.startswith("courier: line 4: invalid_envelope: ")
    assert ledger.rows(broker.data, "envelope") == [envelope]


def test_a_line_that_is_too_long_is_passed_over_in_bounded_memory(broker: BrokerProcess) -> None:
    stdin = b'1\n"' + b"x" * (5 * 2**20) + b'"\n"' + b"y" * (2**20 - 300) + b'"\n4\n'
    ended = courier("pub", "s", "-", "--url", broker.url, stdin=stdin)
    assert ended.returncode == 65
    assert [each["seq"] for each in lines(ended.stdout)] == [1, 2, 3]
    assert ended.stderr == b"courier: line 2: it is longer than 1,048,576 bytes\n"


def test_a_batch_that_is_too_large_for_the_broker_is_split(broker_process: StartBroker) -> None:
    broker = broker_process(config={"server": {"maxBodyBytes": 1024}})
    stdin = b"".join(b'"%b"\n' % (b"x" * 300) for _ in range(20)) + b'"%b"\n"last"\n' % (b"y" * 2000)
    ended = courier("pub", "s", "-", "--url", broker.url, stdin=stdin)
    assert ended.returncode == 65
    assert len(lines(ended.stdout)) == 21
    assert ended.stderr.startswith(b"courier: line 21: too_large: ")


def test_what_a_rate_refuses_is_sent_again_until_it_goes_in(broker_process: StartBroker) -> None:
    rate = {"perSecond": 40, "burst": 10}
    tokens = [{"token": "t", "scopes": ["streams:*:enqueue"], "rate": rate}]
    broker = broker_process(config={"auth": {"tokens": tokens}})
    stdin = b"\n".join(b"%d" % number for number in range(60))
    ended = courier("pub", "s", "-", "--url", broker.url, "--token", "t", stdin=stdin)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert len(lines(ended.stdout)) == 60
    payloads = [json.loads(each)["payload"] for each in ledger.rows(broker.data, "envelope")]
    assert payloads == list(range(60)), "nothing twice, and in order"


def test_without_the_scope_it_ends_at_once(broker_process: StartBroker) -> None:
    broker = broker_process(config={"auth": {"tokens": [{"token": "t", "scopes": ["streams:other:enqueue"]}]}})
    for token in ("t", "wrong"):
        ended = courier("pub", "s", "-", "--url", broker.url, "--token", token, stdin=b"1\n2\n3\n")
        assert (ended.returncode, ended.stdout) == (65, b"")
        assert len(ended.stderr.splitlines()) == 1
        assert b"courier token new NAME --scope 'streams:s:enqueue'" in ended.stderr


def test_when_the_broker_goes_away_it_says_from_where_to_start_again(broker: BrokerProcess) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", "pub", "s", "-", "--url", broker.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"1\n2\n")
    assert [json.loads(process.stdout.readline())["seq"] for _ in range(2)] == [1, 2]
    broker.signal(signal.SIGKILL)
    broker.wait()
    _, stderr = process.communicate(b"3\n", timeout=30)
    assert process.returncode == 69
    reason, advice = stderr.decode().splitlines()
    assert reason.startswith("courier: no broker answers: ")
    assert advice == "courier: the lines before 3 are stored or reported; start again from line 3: tail -n +3"


def test_a_broker_that_takes_nothing_is_given_up() -> None:
    error = '{"error": {"code": "saturated", "message": "later", "retryable": true, "retry_after_seconds": 0}}'
    with stranger(response("503 Service Unavailable", "application/json", error)) as url:
        ended = courier("pub", "s", "-", "--url", url, stdin=b"\n1\n2\n")
    assert (ended.returncode, ended.stdout) == (75, b"")
    reason, advice = ended.stderr.decode().splitlines()
    assert reason == "courier: saturated: later"
    assert "start again from line 2" in advice


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pub", "s", "-", "--id", "x"], "use --id-prefix"),
        (["pub", "s", "1", "--id-prefix", "x"], "one event is named by --id"),
        (["pub", "s", "1", "--envelope", "--id", "x"], "an envelope has its own id"),
        (["pub", "s", "1", "--ts", "yesterday"], "is not a time like 2026-02-19T18:30:00Z"),
        (["pub", "s", "1", "--ts", "2026-02-19T18:30:00"], "is not a time like"),
        (["pub", "s/*", "1"], "is a pattern; an event goes to one stream"),
        (["pub", "/a b/", "1"], "did you mean 'a-b'?"),
        (["pub", "s", "{"], "the payload is not JSON"),
    ],
)
def test_a_wrong_call_says_what_was_meant(arguments: list[str], said: str) -> None:
    ended = courier(*arguments)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert said in " ".join(ended.stderr.decode().split())

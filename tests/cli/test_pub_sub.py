"""`courier pub` and `courier sub`: events in and out, as lines of JSON."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import StartBroker
from tests.support import ledger
from tests.support.process import BrokerProcess, courier, environment

REFUSED = 65


@pytest.fixture
def broker(broker_process: StartBroker) -> BrokerProcess:
    return broker_process()


def lines(output: bytes) -> list[Any]:
    """Every line of stdout, which must be JSON."""
    return [json.loads(line) for line in output.splitlines()]


def pub(broker: BrokerProcess, *arguments: str, stdin: bytes = b"") -> list[dict[str, Any]]:
    """Publish, which must succeed and say nothing but its answers."""
    ended = courier("pub", *arguments, "--url", broker.url, stdin=stdin)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return lines(ended.stdout)


def sub(broker: BrokerProcess, *arguments: str) -> list[dict[str, Any]]:
    """Take events, which must succeed and say nothing else."""
    ended = courier("sub", *arguments, "--url", broker.url)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return lines(ended.stdout)


def test_an_event_goes_in_and_comes_out(broker: BrokerProcess) -> None:
    options = ["--type", "door.changed", "--id", "door-17", "--from", "porch"]
    assert pub(broker, "sensors/door", '{"open": true}', *options) == [{"id": "door-17", "seq": 1, "duplicate": False}]
    (event,) = sub(broker, "sensors/door", "-n", "1")
    assert event.pop("ts").endswith("Z")
    assert event == {
        "id": "door-17",
        "to": "sensors/door",
        "type": "door.changed",
        "payload": {"open": True},
        "from": "porch",
    }


def test_what_is_taken_is_acknowledged_and_done(broker: BrokerProcess) -> None:
    pub(broker, "s", "1")
    pub(broker, "s", "2")
    assert [event["payload"] for event in sub(broker, "s", "-n", "1")] == [1]
    assert [event["payload"] for event in sub(broker, "s", "-n", "1")] == [2]
    assert broker.terminate_and_wait() == 0
    assert ledger.rows(broker.data, "state") == [1, 1]


def test_without_acknowledgement_it_goes_back(broker: BrokerProcess) -> None:
    pub(broker, "s", stdin=b"1\n2\n3\n")
    assert [event["payload"] for event in sub(broker, "s", "-n", "2", "--no-ack")] == [1, 2]
    assert [event["payload"] for event in sub(broker, "s", "-n", "3")] == [1, 2, 3]
    assert broker.terminate_and_wait() == 0
    assert ledger.rows(broker.data, "state, process_attempts") == [(1, 2), (1, 2), (1, 1)]


@pytest.mark.parametrize("dash", [[], ["-"]])
def test_every_line_of_stdin_is_an_event(broker: BrokerProcess, dash: list[str]) -> None:
    stdin = b'1\n\n{"two": 2}\n   \n[3]\r\n"4 without an end of line \xc5\xbe"'
    answers = pub(broker, "s", *dash, stdin=stdin)
    assert [answer["seq"] for answer in answers] == [1, 2, 3, 4]
    assert len({answer["id"] for answer in answers}) == 4
    payloads = [event["payload"] for event in sub(broker, "s", "-n", "4")]
    assert payloads == [1, {"two": 2}, [3], "4 without an end of line ž"]


@pytest.mark.parametrize(("count", "credit"), [(7, 1), (7, 3), (7, 7), (7, 100)])
def test_it_takes_as_many_as_it_was_told_and_no_more(broker: BrokerProcess, count: int, credit: int) -> None:
    pub(broker, "s", stdin=b"\n".join(b"%d" % number for number in range(10)))
    taken = sub(broker, "s", "-n", str(count), "--credit", str(credit))
    assert [event["payload"] for event in taken] == list(range(count))
    assert broker.terminate_and_wait() == 0
    assert ledger.rows(broker.data, "state") == [1] * count + [0] * (10 - count)
    assert set(ledger.rows(broker.data, "process_attempts", "state = 0")) == {0}


def test_a_repetition_with_the_same_id_is_a_duplicate(broker: BrokerProcess) -> None:
    (first,) = pub(broker, "s", "1", "--id", "e-1")
    (second,) = pub(broker, "s", "1", "--id", "e-1")
    assert (first["duplicate"], second["duplicate"], second["seq"]) == (False, True, first["seq"])


def test_payloads_are_not_altered(broker: BrokerProcess) -> None:
    payload = b'{ "n": 123456789012345678901234567890, "a": 1, "a": 2, "f": 1.10, "u": "\\u00e9\xc3\xa9" }'
    pub(broker, "s", stdin=payload)
    (stored,) = ledger.rows(broker.data, "envelope")
    assert b'"payload":' + payload in stored
    ended = courier("sub", "s", "-n", "1", "--url", broker.url)
    assert b'"payload":{"n":123456789012345678901234567890,"a":1,"a":2,"f":1.10,"u":"' in ended.stdout
    assert ended.stdout.count(b"\n") == 1


def test_an_envelope_of_many_lines_is_printed_as_one(broker: BrokerProcess) -> None:
    envelope = {"id": "e-1", "ts": "2025-10-18T19:55:00Z", "to": "s", "type": "t", "payload": {"a": ["x\ny", 1]}}
    body = json.dumps({"to": "s", "envelope": envelope}, indent=2).encode()
    request = urllib.request.Request(f"{broker.url}/v1/enqueue", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        assert response.status == 200
    assert sub(broker, "s", "-n", "1") == [envelope]


def test_the_broker_and_the_token_can_be_named_by_the_environment(broker_process: StartBroker) -> None:
    tokens = {"tokens": [{"token": "secret", "scopes": ["streams:s:enqueue"]}]}
    broker = broker_process(config={"auth": tokens})
    env = {"COURIER_URL": f"{broker.url}/", "COURIER_TOKEN": "secret"}
    assert courier("pub", "s", "1", env=env).returncode == 0
    for arguments, expected in [
        (
            ["pub", "s", "1", "--token", "wrong"],
            b"courier: unauthorized: this token is not known; give one with --token or COURIER_TOKEN; "
            b"courier token new NAME --scope 'streams:s:enqueue' creates one\n",
        ),
        (
            ["pub", "t", "1"],
            b"courier: forbidden: the token 'token-1' lacks the scope streams:t:enqueue; use another token; "
            b"courier token new NAME --scope 'streams:t:enqueue' creates one\n",
        ),
        (
            ["sub", "s"],
            b"courier: forbidden: the token 'token-1' lacks the scope streams:s:subscribe; use another token; "
            b"courier token new NAME --scope 'streams:s:subscribe' creates one\n",
        ),
    ]:
        ended = courier(*arguments, env=env)
        assert (ended.returncode, ended.stdout, ended.stderr) == (REFUSED, b"", expected)


def test_what_the_broker_refuses_ends_with_its_reason(broker: BrokerProcess) -> None:
    ended = courier("pub", "s", "1", "--type", "", "--url", broker.url)
    reason = b"courier: invalid_envelope: envelope.type: it is empty\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (REFUSED, b"", reason)


def test_a_bad_line_is_reported_by_its_number_and_the_rest_go_in(broker: BrokerProcess) -> None:
    ended = courier("pub", "s", "--url", broker.url, stdin=b"1\n\nnonsense\n4\n")
    assert ended.returncode == REFUSED
    assert [answer["seq"] for answer in lines(ended.stdout)] == [1, 2]
    assert ended.stderr.startswith(b"courier: line 3: not JSON: ")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("stdin", [b'"\xff"', b"\xff", b'{"a": "\xc3"}\n'])
def test_stdin_that_is_not_utf8_is_said_to_be(broker: BrokerProcess, stdin: bytes) -> None:
    ended = courier("pub", "s", "--url", broker.url, stdin=b"1\n" + stdin)
    assert (ended.returncode, len(lines(ended.stdout))) == (REFUSED, 1)
    assert ended.stderr.startswith(b"courier: line 2: not JSON: ")
    assert len(ended.stderr.splitlines()) == 1


class Subscription:
    """`courier sub` as a process that goes on."""

    def __init__(self, broker: BrokerProcess, *arguments: str) -> None:
        command = [sys.executable, "-m", "broker", "sub", *arguments, "--url", broker.url]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), bufsize=0
        )

    def line(self) -> Any:
        return json.loads(self.process.stdout.readline())

    def end(self) -> tuple[int, bytes]:
        _, stderr = self.process.communicate(timeout=30)
        return self.process.returncode, stderr


@pytest.fixture
def subscription(broker: BrokerProcess) -> Iterator[Subscription]:
    subscription = Subscription(broker, "s")
    yield subscription
    subscription.process.kill()
    subscription.process.communicate()


def test_it_goes_on_until_ctrl_c(broker: BrokerProcess, subscription: Subscription) -> None:
    for number in range(3):
        pub(broker, "s", str(number))
        assert subscription.line()["payload"] == number
    subscription.process.send_signal(signal.SIGINT)
    assert subscription.end() == (130, b"")


def test_it_ends_when_the_broker_does(broker: BrokerProcess, subscription: Subscription) -> None:
    pub(broker, "s", "1")
    subscription.line()
    assert broker.terminate_and_wait() == 0
    assert subscription.end() == (75, b"courier: the broker closed the connection\n")


def test_it_ends_quietly_when_nobody_reads_its_output(broker: BrokerProcess, subscription: Subscription) -> None:
    pub(broker, "s", "1")
    assert subscription.line()["payload"] == 1
    subscription.process.stdout.close()
    pub(broker, "s", "2")
    assert subscription.process.wait(30) == 141
    assert subscription.process.stderr.read() == b""
    subscription.process.stdout = None
    assert [event["payload"] for event in sub(broker, "s", "-n", "1")] == [2]

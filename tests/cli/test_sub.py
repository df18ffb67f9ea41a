"""`courier sub` beyond one stream and one connection: patterns, batches, groups, a broker that comes back."""

import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartBroker
from tests.support.process import BrokerProcess, courier, environment, until
from tests.support.publish import publish, publish_all


def payloads(output: bytes) -> list[Any]:
    return [json.loads(line)["payload"] for line in output.splitlines()]


def acknowledged(broker: BrokerProcess) -> int:
    """How many events of the stream `s` were acknowledged."""
    with urllib.request.urlopen(f"{broker.url}/v1/streams/s/stats") as response:
        return int(json.load(response)["totals"]["ack"])


def test_a_pattern_takes_from_every_stream(broker: BrokerProcess) -> None:
    publish_all(broker, [("a/b", "1"), ("c", "2"), ("a/d", "3")])
    ended = courier("sub", "a/*", "-n", "2", "--url", broker.url)
    assert (ended.returncode, sorted(payloads(ended.stdout))) == (0, ["1", "3"])


@pytest.mark.parametrize(("count", "credit", "batch"), [(7, 3, 2), (10, 10, 100), (4, 100, 3), (1, 1, 1)])
def test_batches_bring_as_many_as_were_wanted_and_no_more(
    broker: BrokerProcess, count: int, credit: int, batch: int
) -> None:
    publish(broker, "s", *map(str, range(10)))
    options = ["-n", str(count), "--credit", str(credit), "--batch", str(batch)]
    ended = courier("sub", "s", *options, "--url", broker.url)
    assert (ended.returncode, payloads(ended.stdout)) == (0, [str(number) for number in range(count)])
    (stats,) = map(json.loads, courier("streams", "--url", broker.url).stdout.splitlines())
    totals = stats["totals"]
    assert (stats["depth"], totals["out"], totals["ack"]) == (10 - count, count, count)


def test_an_event_that_could_not_be_written_is_not_acknowledged(broker: BrokerProcess) -> None:
    publish(broker, "s", "1")
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "broker", "sub", "s", "-n", "1", "--url", broker.url],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=30,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, b"courier: stdout cannot be written: No space left on device\n")
    assert payloads(courier("sub", "s", "-n", "1", "--url", broker.url).stdout) == ["1"]


def test_a_nack_sends_an_event_to_the_tail(broker: BrokerProcess) -> None:
    publish(broker, "s", "1", "2")
    assert payloads(courier("sub", "s", "-n", "1", "--nack", "--url", broker.url).stdout) == ["1"]
    assert payloads(courier("sub", "s", "-n", "2", "--url", broker.url).stdout) == ["2", "1"]
    ended = courier("sub", "s", "--nack", "--no-ack", "--url", broker.url)
    assert (ended.returncode, ended.stdout) == (2, b"")


def test_a_group_is_asked_for_in_the_query() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "broker", "sub", "a/*", "--group", "night shift", "--url", url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        with process:
            connection, _ = server.accept()
            with connection:
                request = connection.recv(65536).decode()
            server.close()
            assert process.wait(30) == 69
    assert request.startswith("GET /v1/subscribe?stream=a/*&group=night+shift HTTP/1.1\r\n")


def test_with_reconnect_it_goes_on_when_the_broker_is_back(broker_process: StartBroker) -> None:
    broker = broker_process()
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", "sub", "s", "-n", "2", "--reconnect", "--url", broker.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    with process:
        assert process.stdout is not None
        publish(broker, "s", "before")
        assert json.loads(process.stdout.readline())["id"] == "before"
        until(lambda: acknowledged(broker) == 1)
        assert broker.terminate_and_wait() == 0
        successor = broker_process(data=broker.data, port=broker.port)
        publish(successor, "s", "after")
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert payloads(stdout) == ["after"]
    assert stderr.startswith(b"courier: the broker closed the connection; trying again\n")


def test_a_refusal_that_would_be_repeated_ends_it_also_with_reconnect(broker_process: StartBroker) -> None:
    broker = broker_process(config={"auth": {"tokens": [{"token": "t", "scopes": ["streams:*:enqueue"]}]}})
    ended = courier("sub", "s", "--reconnect", "--url", broker.url, "--token", "t")
    assert (ended.returncode, ended.stdout) == (65, b"")
    assert ended.stderr.startswith(b"courier: forbidden: ")

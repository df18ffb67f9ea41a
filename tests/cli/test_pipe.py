"""`courier pipe` and `courier manifest` as processes: what they say, how they end, that a kill loses nothing."""

import contextlib
import json
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import StartBroker
from tests.support.events import STREAM, envelope
from tests.support.pipe import PipeProcess, enqueue_line
from tests.support.process import PATIENCE_SECONDS, courier, environment, until

USAGE, CONFIG = 2, 78


StartPipe = Callable[..., PipeProcess]


@pytest.fixture
def pipe_process(tmp_path: Path) -> Iterator[StartPipe]:
    with ExitStack() as started:

        def start(*arguments: str, **options: Any) -> PipeProcess:
            process = PipeProcess(tmp_path, *arguments, **options)
            started.callback(process.close)
            return process

        yield start


@pytest.mark.parametrize("where", ["--data=data", "--memory"])
def test_the_end_of_input_drains_and_ends_with_0_and_stdout_has_the_protocol_alone(tmp_path: Path, where: str) -> None:
    lines = [enqueue_line(f"e-{number}") for number in range(100)]
    ended = courier("pipe", "--stdio", where, stdin=b"".join([*lines, b"nonsense"]), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    messages = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["enqueued"]["id"] for each in messages if "enqueued" in each] == [f"e-{each}" for each in range(100)]
    assert [each["error"]["line"] for each in messages if "error" in each] == [101]
    assert (tmp_path / "data/courier.db").exists() == (where != "--memory")
    assert (b"recovered" in ended.stderr) == (where != "--memory")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_like_the_end_of_input(pipe_process: StartPipe, number: signal.Signals) -> None:
    pipe = pipe_process("--data", "data")
    pipe.say(b'{"subscribe": {"stream": "agents/**", "window": 4}}\n', enqueue_line("e-1"))
    assert {key for _ in range(2) for key in pipe.hear()} == {"enqueued", "deliver", "attempt", "seq"}
    pipe.process.send_signal(number)
    assert pipe.wait() == 0
    again = pipe_process("--data", "data")
    again.say(b'{"subscribe": {"stream": "agents/**", "window": 4}}\n')
    assert again.hear()["deliver"] == envelope("e-1")
    again.say(b'{"ack": "e-1"}\n')
    again.stdin.close()
    assert again.wait() == 0


def test_a_second_signal_ends_it_at_once(pipe_process: StartPipe) -> None:
    pipe = pipe_process("--memory")
    size = 1_000_000
    big = json.dumps({"enqueue": {"to": STREAM, "envelope": envelope("e-1", payload="x" * size)}}).encode()
    pipe.say(big + b"\n")
    pipe.hear()
    pipe.say(b'{"subscribe": {"stream": "agents/**", "window": 1}}\n')
    assert select.select([pipe.stdout], [], [], PATIENCE_SECONDS)[0], "it is in the middle of a write"
    pipe.process.send_signal(signal.SIGTERM)
    pipe.process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while pipe.process.poll() is None and time.monotonic() < deadline:
        pipe.process.send_signal(signal.SIGINT)
    assert pipe.process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_a_parent_that_never_reads_is_not_waited_for_longer_than_the_drain_may_take(
    pipe_process: StartPipe,
) -> None:
    pipe = pipe_process("--memory", env={"COURIER_SERVER__DRAIN_MS": "200"})
    big = json.dumps({"enqueue": {"to": STREAM, "envelope": envelope("e-1", payload="x" * 1_000_000)}}).encode()
    pipe.say(big + b"\n")
    pipe.hear()
    pipe.say(b'{"subscribe": {"stream": "agents/**", "window": 1}}\n')
    assert select.select([pipe.stdout], [], [], PATIENCE_SECONDS)[0], "it is in the middle of a write"
    pipe.process.send_signal(signal.SIGTERM)
    assert pipe.wait() == 1
    assert "courier: not drained after 200 ms: nobody reads stdout" in pipe.stderr


def test_an_output_that_cannot_be_written_ends_it_with_1_and_what_was_read_is_kept(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "broker", "pipe", "--stdio", "--data", "data"],
            input=enqueue_line("e-1"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=tmp_path,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert ended.returncode == 1
    assert b"the pipe broke: [Errno 28] No space left on device" in ended.stderr
    again = courier("pipe", "--stdio", "--data", "data", stdin=enqueue_line("e-1"), cwd=tmp_path)
    assert json.loads(again.stdout)["enqueued"]["duplicate"] is True


def test_a_parent_that_closes_its_end_lets_it_end_with_0(pipe_process: StartPipe) -> None:
    pipe = pipe_process("--data", "data")
    pipe.say(enqueue_line("e-1"))
    pipe.hear()
    pipe.stdout.close()
    pipe.say(enqueue_line("e-2"))
    assert pipe.wait() == 0


def test_nothing_that_was_answered_is_lost_by_a_kill(pipe_process: StartPipe) -> None:
    answered: set[str] = set()
    for life in range(5):
        pipe = pipe_process("--data", "data")
        pipe.say(*(enqueue_line(f"e-{life}-{number}") for number in range(300)))
        for _ in range(50 * (life + 1)):
            answered.add(pipe.hear()["enqueued"]["id"])
        pipe.process.kill()
        pipe.wait()
    pipe = pipe_process("--data", "data")
    pipe.say(b'{"subscribe": {"stream": "%b", "window": 1000}}\n' % STREAM.encode())
    delivered: list[str] = []
    while answered - set(delivered):
        delivered.append(pipe.hear()["deliver"]["id"])
    assert len(delivered) == len(set(delivered)), "nothing is there twice"


def test_what_was_delivered_and_not_acked_comes_again_after_a_kill(pipe_process: StartPipe) -> None:
    pipe = pipe_process("--data", "data")
    pipe.say(enqueue_line("e-1"))
    pipe.hear()
    pipe.say(b'{"subscribe": {"stream": "%b", "window": 1}}\n' % STREAM.encode())
    assert pipe.hear()["deliver"]["id"] == "e-1"
    pipe.process.kill()
    pipe.wait()
    again = pipe_process("--data", "data")
    again.say(b'{"subscribe": {"stream": "%b", "window": 1}}\n' % STREAM.encode())
    assert again.hear()["deliver"]["id"] == "e-1"


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here to make a sync fail")
def test_when_a_sync_fails_it_ends_with_the_code_for_that_and_answers_nothing_more(tmp_path: Path) -> None:
    """Nothing may be answered after the journal has failed: a later success would be a lie."""
    fault = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=30+"]
    pipe = PipeProcess(tmp_path, "--data", "data", before=fault)
    try:
        answered = []
        with contextlib.suppress(BrokenPipeError, AssertionError):
            while len(answered) < 1_000:
                pipe.say(enqueue_line(f"e-{len(answered)}"))
                message = pipe.hear()
                if "error" in message:
                    assert message["error"]["code"] == "storage_failed"
                    break
                answered.append(message["enqueued"]["id"])
        assert pipe.wait() == 74
        assert 0 < len(answered) < 1_000
    finally:
        pipe.close()
    again = courier("pipe", "--stdio", "--data", "data", stdin=b"".join(map(enqueue_line, answered)), cwd=tmp_path)
    assert [json.loads(line)["enqueued"]["duplicate"] for line in again.stdout.splitlines()] == [True] * len(answered)


def test_a_data_directory_that_another_broker_uses_is_refused(broker_process: StartBroker, tmp_path: Path) -> None:
    broker = broker_process()
    ended = courier("pipe", "--stdio", "--data", str(broker.data), cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (CONFIG, b"")
    reason = f"another broker (process {broker.pid}) uses this data directory; stop it, or give another"
    assert ended.stderr.decode().splitlines()[-1] == f"courier: {broker.data}: {reason}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say --stdio"),
        (["--stdio", "--memory", "--data", "data"], "--memory has no journal"),
        (["--stdio", "--memory", "--http"], "--memory has no journal"),
        (["--stdio", "--port", "0"], "--host and --port are for --http"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = courier("pipe", *arguments, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (USAGE, b"")
    assert message in ended.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_with_problems_is_refused(tmp_path: Path) -> None:
    (tmp_path / "courier.yaml").write_text(yaml.safe_dump({"streams": {"maxDepth": 0}}))
    ended = courier("pipe", "--stdio", "--config", "courier.yaml", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (CONFIG, b"")
    assert "courier.yaml:2: streams.maxDepth" in ended.stderr.decode()


def test_with_http_the_same_broker_is_reached_both_ways(pipe_process: StartPipe) -> None:
    pipe = pipe_process("--data", "data", "--http", "--port", "0")
    until(lambda: "courier listens on" in pipe.stderr or pipe.process.poll() is not None)
    url = pipe.stderr.partition("courier listens on ")[2].partition('"')[0].split()[0]
    published = courier("pub", STREAM, '{"by": "http"}', "--id", "e-1", "--url", url)
    assert published.returncode == 0, published.stderr
    pipe.say(b'{"subscribe": {"stream": "%b", "window": 1}}\n' % STREAM.encode())
    assert pipe.hear()["deliver"]["payload"] == {"by": "http"}
    pipe.process.send_signal(signal.SIGTERM)
    assert pipe.wait() == 0


def test_without_any_input_it_ends_at_once(tmp_path: Path) -> None:
    ended = courier("pipe", "--stdio", "--memory", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_descriptor_that_is_closed_is_not_taken_for_another_file(tmp_path: Path, closed: str) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m broker pipe --stdio --data data {closed}', sys.executable],
        stdin=subprocess.PIPE,
        capture_output=True,
        env=environment(),
        cwd=tmp_path,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == USAGE
    assert b"stdin and stdout must be open" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def manifest(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    ended = courier("manifest", *arguments, cwd=cwd, env=env)
    assert ended.returncode == 0, ended.stderr
    whole: dict[str, Any] = json.loads(ended.stdout)
    return whole


def test_the_manifest_has_every_field_that_a_kernel_asks_for(tmp_path: Path) -> None:
    whole = manifest("--fqdn", "localhost", "--owner", "me", cwd=tmp_path)
    assert whole == {
        "fqdn": "localhost",
        "servername": "courier",
        "classHex": "0xC0DE",
        "owner": "me",
        "auth": "no",
        "authMechanism": "none",
        "terminals": [
            {"name": "input", "type": "local", "direction": "input"},
            {"name": "output", "type": "local", "direction": "output"},
        ],
        "capabilities": {"type": "transform", "accepts": ["envelope"], "produces": ["envelope", "view"]},
        "metadata": {
            "protocol": "ndjson",
            "httpUrl": "http://127.0.0.1:8787",
            "statsUrl": "http://127.0.0.1:8787/v1/streams",
            "healthUrl": "http://127.0.0.1:8787/readyz",
        },
        "command": sys.executable,
        "args": [
            *("-m", "broker", "pipe", "--stdio", "--data", str(tmp_path / "data")),
            *("--http", "--host", "127.0.0.1", "--port", "8787"),
        ],
        "env": {},
        "cwd": str(tmp_path),
        "ioMode": "stdio",
        "healthCheck": {"type": "http", "url": "http://127.0.0.1:8787/readyz"},
    }


def test_without_http_the_manifest_names_no_url(tmp_path: Path) -> None:
    whole = manifest("--no-http", cwd=tmp_path)
    assert whole["metadata"] == {"protocol": "ndjson"}
    assert "healthCheck" not in whole
    assert whole["args"][-2:] == ["--data", str(tmp_path / "data")]


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:9000"), ("::", "http://[::1]:9000"), ("localhost", "http://localhost:9000")],
)
def test_the_urls_of_the_manifest_can_be_reached_from_this_machine(tmp_path: Path, host: str, url: str) -> None:
    tokens = [{"token": "dev-local", "scopes": ["admin:*"]}]
    (tmp_path / "courier.yaml").write_text(yaml.safe_dump({"auth": {"tokens": tokens}}))
    whole = manifest("--config", "courier.yaml", "--host", host, "--port", "9000", cwd=tmp_path)
    assert whole["metadata"]["httpUrl"] == url
    assert "dev-local" not in json.dumps(whole)


def test_the_manifest_starts_with_the_configuration_that_it_was_made_with(tmp_path: Path) -> None:
    (tmp_path / "courier.yaml").write_text(yaml.safe_dump({"data": "elsewhere", "server": {"port": 9001}}))
    by_option = manifest("--config", "courier.yaml", cwd=tmp_path)
    by_variable = manifest(cwd=tmp_path, env={"COURIER_CONFIG": "courier.yaml"})
    assert by_option == by_variable
    assert str(tmp_path / "courier.yaml") in by_option["args"]
    assert str(tmp_path / "elsewhere") in by_option["args"]
    assert by_option["metadata"]["httpUrl"] == "http://127.0.0.1:9001"


def test_a_manifest_that_could_not_be_true_is_refused(tmp_path: Path) -> None:
    ended = courier("manifest", "--port", "0", cwd=tmp_path)
    assert ended.returncode == USAGE
    assert b"so it cannot be 0" in ended.stderr
    assert courier("manifest", "--port", "70000", cwd=tmp_path).returncode == CONFIG

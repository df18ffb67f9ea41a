"""The client commands without a broker, and the help of every command."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.cli import exits, main
from tests.support.process import courier


def commands(group: object = main, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    for name, command in getattr(group, "commands", {}).items():
        found += commands(command, (*path, name))
    return found


def test_the_help_of_every_command_is_there() -> None:
    ended = courier("--help")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b"Usage: courier [OPTIONS] COMMAND [ARGS]...")
    for path in commands():
        for flag in ("--help", "-h"):
            with pytest.raises(SystemExit) as ended_with:
                main([*path, flag], prog_name="courier")
            assert ended_with.value.code == 0


@pytest.mark.parametrize("command", ["serve", "pub", "sub", "config"])
def test_the_help_of_a_command_shows_examples(command: str) -> None:
    ended = courier(command, "--help")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert re.search(rb"Examples?:\n", ended.stdout)
    assert f"  courier {command}".encode() in ended.stdout


def test_the_version_is_that_of_the_distribution() -> None:
    ended = courier("--version")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert re.fullmatch(rb"courier, version \d+\.\d+\.\d+\n", ended.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["pub"],
        ["sub"],
        ["nonsense"],
        ["pub", "s", "not json"],
        ["pub", "s", ""],
        ["pub", "s", "-", "--id", "x"],
        ["pub", "s", "--id", "x"],
        ["sub", "s", "-n", "0"],
        ["sub", "s", "--credit", "0"],
        ["sub", "s", "--credit", "100001"],
        ["sub", "s", "--nonsense"],
        ["pub", "s", "1", "--url", "127.0.0.1:1"],
        ["pub", "s", "1", "--url", ""],
        ["sub", "s", "--url", "ftp://127.0.0.1:1"],
        ["sub", "s", "--url", "http://"],
    ],
)
def test_a_wrong_usage_is_told_on_stderr(arguments: list[str]) -> None:
    ended = courier(*arguments)
    assert (ended.returncode, ended.stdout) == (exits.USAGE, b""), ended
    assert ended.stderr
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("command", [["pub", "s", "1"], ["sub", "s"]])
def test_where_nobody_listens_the_broker_is_unavailable(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ended = courier(*command, "--url", f"http://127.0.0.1:{port}")
    assert (ended.returncode, ended.stdout) == (exits.UNAVAILABLE, b"")
    assert ended.stderr.startswith(b"courier: no broker answers: ")
    assert ended.stderr.endswith(b"; start one with 'courier serve', or name it with --url\n")


@contextmanager
def stranger(answer: bytes) -> Iterator[str]:
    """Something that gives every caller the same answer, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def response(status: str, kind: str, content: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    return (head + content).encode()


@pytest.mark.parametrize("command", [["pub", "s", "1"], ["sub", "s"]])
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        response("200 OK", "text/html", "<h1>It works!</h1>"),
        response("200 OK", "application/json", "[]"),
        response("200 OK", "application/json", "nonsense"),
        response("200 OK", "application/json", '{"status": "ok"}'),
        response("404 Not Found", "text/html", "nowhere"),
    ],
    ids=["nothing", "not HTTP", "a page", "an array", "not JSON", "another object", "not found"],
)
def test_what_is_no_broker_is_no_traceback(command: list[str], answer: bytes) -> None:
    with stranger(answer) as url:
        ended = courier(*command, "--url", url)
    assert ended.returncode in (exits.UNAVAILABLE, exits.REFUSED)
    assert ended.stdout == b""
    assert ended.stderr.startswith(b"courier: ")
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("command", [["pub", "s", "1"], ["sub", "s"]])
def test_a_broker_that_cannot_just_now_is_a_temporary_failure(command: list[str]) -> None:
    error = '{"error": {"code": "saturated", "message": "later", "retryable": true, "retry_after_seconds": 1}}'
    with stranger(response("503 Service Unavailable", "application/json", error)) as url:
        ended = courier(*command, "--url", url)
    assert (ended.returncode, ended.stdout) == (exits.TEMPORARY, b"")
    assert ended.stderr.startswith(b"courier: ")

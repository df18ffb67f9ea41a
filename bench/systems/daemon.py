"""A server of somebody else's, started for a measurement on a free port of this machine, and ended after it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.failure import BenchmarkFailed, NotInstalled

START_SECONDS = 60.0
_PLACES = ":".join(
    (str(Path(sys.executable).parent), "/usr/lib/rabbitmq/bin", "/usr/sbin", "/usr/local/sbin", os.defpath)
)
"""Beside this Python come first; RabbitMQ's command of the same name in the path wants another user."""


def program(name: str, how: str) -> str:
    """Where a program is; raise NotInstalled, which says how to get it."""
    found = shutil.which(name, path=_PLACES) or shutil.which(name)
    if found is None:
        raise NotInstalled(f"{name} is not installed: {how}")
    return found


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


@contextmanager
def daemon(
    command: Sequence[str], directory: Path, port: int, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A server that listens on this port, with what it says in a file of this directory."""
    said = directory / "said.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**os.environ, **(environment or {})}, start_new_session=True,
        )  # fmt: skip
    try:
        _wait_for(port, process, said)
        yield
    finally:
        process.terminate()
        try:
            process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkFailed(f"{process.args!r} did not start: {said.read_text()[-500:]}") from None
            time.sleep(0.05)
        else:
            return


def ask(connection: socket.socket, question: bytes, end: bytes) -> bytes:
    """Send something, and read until this comes; for what is done before the clock starts."""
    connection.sendall(question)
    received = b""
    while end not in received:
        got = connection.recv(1 << 16)
        if not got:
            raise BenchmarkFailed(f"the server hung up after {question[:100]!r}: {received[-300:]!r}")
        received += got
    return received

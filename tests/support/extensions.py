"""`courier extensions run` as a real process: what it is told on stdin, and what it tells the user on stdout."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.process import PATIENCE_SECONDS, environment, until


class ExtensionsProcess:
    """Extensions on a broker of their own."""

    def __init__(
        self, directory: Path, data: Path, *arguments: str, env: Mapping[str, str] | None = None, ready: str = "runs"
    ) -> None:
        self._log = data.parent / f"{data.name}.stderr"
        command = [sys.executable, "-m", "broker", "extensions", "run", str(directory), "--data", str(data), *arguments]
        before = len(self.stderr)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(env),
                bufsize=0,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._rest = b""
        if ready:
            until(lambda: ready in self.stderr[before:] or self.process.poll() is not None)

    def say(self, text: str) -> None:
        """Write a line, as a user would."""
        self.stdin.write(f"{text}\n".encode())

    def hear(self) -> dict[str, Any]:
        """The next message to the user."""
        message = self.hear_or_end()
        assert message is not None, self.stderr
        return message

    def hear_or_end(self) -> dict[str, Any] | None:
        """The next message to the user; None at the end."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.stdout], [], [], PATIENCE_SECONDS)
            assert ready, self.stderr
            data = os.read(self.stdout.fileno(), 65536)
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.wait()

    @property
    def stderr(self) -> str:
        """What it, and those before it with the same data, have logged."""
        return self._log.read_text() if self._log.exists() else ""

    def __enter__(self) -> "ExtensionsProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()

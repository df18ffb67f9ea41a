"""`courier pipe --stdio` as a real process, and the lines that it is told."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.events import body
from tests.support.process import PATIENCE_SECONDS, environment


def enqueue_line(event_id: str) -> bytes:
    """The command that enqueues a valid envelope."""
    return b'{"enqueue": %b}\n' % body(event_id)


class PipeProcess:
    """`courier pipe --stdio`, spoken to over its pipes."""

    def __init__(
        self, home: Path, *arguments: str, env: Mapping[str, str] | None = None, before: Sequence[str] = ()
    ) -> None:
        self._log = home / "pipe.stderr"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "broker", "pipe", "--stdio", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(env),
                cwd=home,
                bufsize=0,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._rest = b""

    def say(self, *lines: bytes) -> None:
        """Write lines to its stdin."""
        self.stdin.write(b"".join(lines))

    def hear(self) -> dict[str, Any]:
        """The next message; an assertion when none comes."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.stdout], [], [], PATIENCE_SECONDS)
            data = os.read(self.stdout.fileno(), 65536) if ready else b""
            assert data, self.stderr
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    @property
    def stderr(self) -> str:
        """What it has logged so far."""
        return self._log.read_text()

    def close(self) -> None:
        """Leave nothing of it behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()

"""The broker and its commands as real processes."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import yaml

import _fast

PATIENCE_SECONDS = 30.0
_TREE = Path(_fast.__file__).parents[1]
"""Where these compiled modules lie: a child must use the same build of them."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: nothing of Courier in it but what the test asks for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COURIER_")}
    return kept | {"PYTHONPATH": str(_TREE), "PYTHONUNBUFFERED": "1"} | dict(extra or {})


def courier(
    *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a `courier` command to its end."""
    command = [sys.executable, "-m", "broker", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, env=environment(env), cwd=cwd, timeout=PATIENCE_SECONDS, check=False
    )


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that nobody announces."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.005)


class BrokerProcess:
    """`courier serve` on a free port, started when it says that it listens."""

    def __init__(
        self,
        data: Path,
        *,
        config: Mapping[str, object] | None = None,
        file: Path | None = None,
        port: int = 0,
        env: Mapping[str, str] | None = None,
        tracer: Sequence[str] = (),
    ) -> None:
        self.data = data
        home = data.parent
        command = [*tracer, sys.executable, "-m", "broker", "serve", "--port", str(port), "--data", str(data)]
        if config is not None:
            file = home / f"{data.name}.yaml"
            file.write_text(yaml.safe_dump(dict(config)))
        if file is not None:
            command += ["--config", str(file)]
        self._log = home / f"{data.name}.stderr"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(env),
                cwd=home,
                bufsize=0,
            )
        self.pid = self.process.pid
        self.stdout_lines: list[str] = []
        try:
            self.port = self._read_start()
        except BaseException:
            self.close()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    def _read_start(self) -> int:
        listens, promise = self._line(), self._line()
        head, _, journal = listens.partition(", journal in ")
        assert head.startswith("courier listens on http://127.0.0.1:"), (listens, self.stderr_lines)
        assert journal == str(self.data / "courier.db")
        assert promise.startswith("acknowledged means: ")
        return int(head.rpartition(":")[2])

    def _line(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        line = self.process.stdout.readline().decode() if ready else ""
        assert line.endswith("\n"), f"the broker did not start: {self.stderr_lines}"
        self.stdout_lines.append(line[:-1])
        return line[:-1]

    @property
    def stderr_lines(self) -> list[str]:
        """What it has written to stderr so far."""
        return self._log.read_text().splitlines()

    def until_it_says(self, text: str) -> None:
        """Wait until its stderr holds this text."""
        until(lambda: any(text in line for line in self.stderr_lines))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def terminate_and_wait(self) -> int:
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL: as the power would go, but for the disk's own cache."""
        self.process.kill()
        self.wait()

    def close(self) -> None:
        """Leave nothing of it behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> "BrokerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

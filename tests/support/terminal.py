"""A command on a terminal of its own: what a person sees, and types."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.process import PATIENCE_SECONDS, environment, until


class OnTerminal:
    """A process whose stdout and stderr, and stdin unless another is given, are a terminal."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 100,
        lines: int = 30,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        wanted = environment({"TERM": "xterm-256color", **(env or {})})
        if "NO_COLOR" not in (env or {}):
            wanted.pop("NO_COLOR", None)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=slave if stdin is None else stdin,
                stdout=slave if stdout is None else stdout,
                stderr=slave,
                env=wanted,
                cwd=cwd,
            )
        finally:
            os.close(slave)
        self.seen = ""

    def typed(self, text: str) -> None:
        """What a person types."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def until_it_waits_for_input(self) -> None:
        """Wait until it reads its stdin. A signal between the prompt and the read is noticed only after the read."""
        state = Path(f"/proc/{self.process.pid}/syscall")
        until(lambda: state.read_text().split()[1:2] == ["0x0"] and self.process.poll() is None)

    def resize(self, columns: int, lines: int) -> None:
        """Another size of the window."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, text: str, times: int = 1) -> str:
        """Wait until it has shown a text so many times; all that it has shown."""
        while self.seen.count(text) < times:
            assert self._read(), f"it ended without {text!r}: {self.seen!r}"
        return self.seen

    def end(self) -> tuple[int, str]:
        """Wait for its end; the exit code, and all that it has shown."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_SECONDS), self.seen.replace("\r\n", "\n")

    def _read(self) -> bool:
        """Read what there is; False at the end."""
        ready, _, _ = select.select([self._master], [], [], PATIENCE_SECONDS)
        assert ready, f"nothing more was shown: {self.seen!r}"
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # Linux says so when the last holder of the other side has closed it
            return False
        self.seen += chunk.decode()
        return bool(chunk)

    def __enter__(self) -> "OnTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def courier_on_terminal(*arguments: str, **options: object) -> OnTerminal:
    """A `courier` command on a terminal."""
    return OnTerminal([sys.executable, "-m", "broker", *arguments], **options)  # type: ignore[arg-type]


def shown_by(*arguments: str, **options: object) -> tuple[int, str]:
    """The exit code of a command that ends by itself, and what it showed."""
    with courier_on_terminal(*arguments, **options) as running:
        return running.end()

"""The daemon, its commands, and the servers that it sends to, as real processes."""

import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import apsw

from tests.support.process import PATIENCE_SECONDS, environment

QUICK = {
    "COURIER_EDGE_RETRY_BASE": "0.005",
    "COURIER_EDGE_RETRY_CAP": "0.1",
    "COURIER_EDGE_CONNECT_BASE": "0.005",
    "COURIER_EDGE_CONNECT_CAP": "0.1",
    "COURIER_EDGE_DEVICE_ID": "pi-1",
    "COURIER_EDGE_ANSWER_TIMEOUT": "5",
}


def courier_edge(
    *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a `courier-edge` command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "edge", *arguments],
        input=stdin,
        capture_output=True,
        env=environment(env),
        timeout=PATIENCE_SECONDS,
        check=False,
    )


class Child:
    """A process that says a line when it is ready."""

    def __init__(
        self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, tracer: Sequence[str] = ()
    ) -> None:
        self._log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [*tracer, sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(env),
                bufsize=0,
            )
        self.first_line = ""

    def ready(self) -> str:
        """Wait for its first line."""
        assert self.process.stdout is not None
        found, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        self.first_line = self.process.stdout.readline().decode() if found else ""
        assert self.first_line.endswith("\n"), f"it did not start: {self.errors}"
        return self.first_line.strip()

    @property
    def errors(self) -> str:
        """What it wrote to stderr."""
        return self._log.read_text()

    def kill(self) -> None:
        """kill -9, if it is still there."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(PATIENCE_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def settings(path: Path, url: str) -> dict[str, str]:
    """The environment of a daemon with quick retries, on any port."""
    return {**QUICK, "COURIER_EDGE_PATH": str(path), "COURIER_EDGE_URL": url, "COURIER_EDGE_PORT": "0"}


class Daemon(Child):
    """`courier-edge run` with quick retries, on any port."""

    def __init__(self, path: Path, url: str, env: Mapping[str, str] | None = None, tracer: Sequence[str] = ()) -> None:
        given = {**settings(path, url), **(env or {})}
        super().__init__(["-m", "edge", "run"], path.with_suffix(".stderr"), given, tracer)
        self.path = path
        self.socket = Path(f"{path}.sock")

    def ready(self) -> str:
        """Wait until it listens; the address of its HTTP intake."""
        line = super().ready()
        return line.removeprefix("courier-edge takes events on ").partition("/events")[0]

    def command(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """A command beside it."""
        return courier_edge(*arguments, "--path", str(self.path), stdin=stdin, env={"COURIER_EDGE_DEVICE_ID": "pi-1"})


class Server(Protocol):
    """What the edge sends to, as a process that can be killed and started again on its data and port."""

    url: str

    def start(self) -> None:
        """Start it, or start it again."""

    def kill(self) -> None:
        """kill -9."""

    def close(self) -> None:
        """Leave nothing of it behind."""

    def stored(self) -> list[tuple[str, bytes]]:
        """Every event that it has, with its bytes; one that was stored twice is there twice."""


class ReferenceProcess:
    """The reference server of the tests."""

    def __init__(self, directory: Path) -> None:
        self._inbox = directory / "inbox.db"
        self._log = directory / "server.stderr"
        self._child: Child | None = None
        self.port = 0
        self.url = ""

    def start(self, *options: str) -> None:
        """Start it; `--die-before-commit N` and `--die-after-commit N` end it there."""
        command = ["-m", "tests.edge.reference_server", str(self._inbox), "--port", str(self.port), *options]
        self._child = Child(command, self._log)
        self.url = self._child.ready()
        self.port = int(self.url.rpartition(":")[2])

    def wait(self) -> int:
        """Wait for it to die."""
        assert self._child is not None
        return self._child.wait()

    def kill(self) -> None:
        """kill -9."""
        if self._child is not None:
            self._child.kill()

    close = kill

    def stored(self) -> list[tuple[str, bytes]]:
        """What its inbox has."""
        connection = apsw.Connection(str(self._inbox))
        try:
            rows = connection.execute("SELECT event_id, payload FROM event_inbox").fetchall()
        finally:
            connection.close()
        return [(str(event_id), str(payload).encode()) for event_id, payload in rows]


class CourierProcess:
    """The broker itself."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "broker"
        self._log = directory / "broker.stderr"
        self._child: Child | None = None
        self.port = 0
        self.url = ""

    def start(self) -> None:
        """Start it, on the port that it had before."""
        command = ["-m", "broker", "serve", "--port", str(self.port), "--data", str(self._data)]
        self._child = Child(command, self._log)
        address = self._child.ready().removeprefix("courier listens on ").partition(",")[0]
        self.port = int(address.rpartition(":")[2])
        self.url = f"ws://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """kill -9."""
        if self._child is not None:
            self._child.kill()

    close = kill

    def stored(self) -> list[tuple[str, bytes]]:
        """What its ledger has."""
        connection = apsw.Connection(str(self._data / "courier.db"))
        try:
            rows = connection.execute(
                "SELECT source_event_id, envelope FROM ledger WHERE contract = 'skyra'"
            ).fetchall()
        finally:
            connection.close()
        return [(str(event_id), bytes(envelope)) for event_id, envelope in rows]


def broker_takes_device_events() -> bool:
    """Whether this tree's broker has `/v1/ingress`."""
    return any("/v1/ingress" in path.read_text() for path in (Path(__file__).parents[2] / "broker/front").glob("*.py"))

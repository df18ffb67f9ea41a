"""What systemd is told (sd_notify): heard on a real socket, from the real process."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Connect, StartBroker
from tests.support.disk import preload
from tests.support.events import body
from tests.support.process import PATIENCE_SECONDS, until

EVERY_USEC = 200_000


class Manager:
    """The end of the socket that systemd has."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._socket.bind(str(path))
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(EVERY_USEC)}

    def hear(self) -> dict[str, str]:
        """The next message, as its assignments."""
        return dict(line.split("=", 1) for line in self._socket.recv(4096).decode().splitlines())

    def hear_but(self, ignored: dict[str, str]) -> dict[str, str]:
        """The next message that is not this one."""
        while (heard := self.hear()) == ignored:
            pass
        return heard

    def is_silent_for(self, seconds: float) -> bool:
        """Whether nothing more than what was sent already is heard for a while."""
        self._socket.setblocking(False)
        try:
            while True:
                self._socket.recv(4096)
        except BlockingIOError:
            self._socket.settimeout(seconds)
        try:
            self._socket.recv(4096)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(PATIENCE_SECONDS)
        return False

    def close(self) -> None:
        self._socket.close()


ALIVE = {"WATCHDOG": "1"}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.close()


def test_systemd_is_told_ready_alive_reloading_and_stopping(broker_process: StartBroker, manager: Manager) -> None:
    broker = broker_process(env=manager.environment)
    ready = manager.hear_but(ALIVE)
    assert ready == {"READY": "1", "STATUS": f"listens on http://127.0.0.1:{broker.port}"}
    assert [manager.hear() for _ in range(3)] == [ALIVE] * 3
    broker.signal(signal.SIGHUP)
    reloading = manager.hear_but(ALIVE)
    assert reloading.keys() == {"RELOADING", "MONOTONIC_USEC"}
    assert int(reloading["MONOTONIC_USEC"]) > 0
    assert manager.hear_but(ALIVE) == {"READY": "1"}
    assert broker.terminate_and_wait() == 0
    assert manager.hear_but(ALIVE) == {"STOPPING": "1", "STATUS": "draining"}


def test_a_reload_of_a_file_with_problems_ends_too(
    broker_process: StartBroker, manager: Manager, tmp_path: Path
) -> None:
    broker = broker_process(config={}, env=manager.environment)
    assert manager.hear_but(ALIVE)["READY"] == "1"
    (tmp_path / "data.yaml").write_text("server: {maxBodyBytes: x}")
    broker.signal(signal.SIGHUP)
    assert manager.hear_but(ALIVE)["RELOADING"] == "1"
    assert manager.hear_but(ALIVE) == {"READY": "1"}
    assert any("not reloaded" in line for line in broker.stderr_lines)


def test_a_broker_that_cannot_start_is_never_ready(broker_process: StartBroker, manager: Manager) -> None:
    with pytest.raises(AssertionError, match="did not start"):
        broker_process(config={"server": {"host": "0.0.0.0"}}, env=manager.environment)
    assert manager.is_silent_for(0.01)


async def test_a_commit_that_hangs_starves_the_watchdog_and_the_loop_lives_on(
    broker_process: StartBroker, manager: Manager, connect: Connect, tmp_path: Path
) -> None:
    """The broker answers `/livez` all the time: a timer on the loop would feed the watchdog for ever."""
    hang = tmp_path / "hang"
    broker = broker_process(env=manager.environment | preload(tmp_path, hangs=hang))
    assert manager.hear_but(ALIVE)["READY"] == "1"
    client = await connect(broker.url)
    await client.enqueue("e-1")
    assert manager.hear() == ALIVE
    hang.touch()
    waiting = asyncio.create_task(client.post(body("e-2")))
    await asyncio.to_thread(until, lambda: manager.is_silent_for(5 * EVERY_USEC / 1e6))
    assert (await client.get("livez")).status == 200
    assert not waiting.done()
    hang.unlink()
    assert (await waiting).status == 200
    assert await asyncio.to_thread(manager.hear) == ALIVE

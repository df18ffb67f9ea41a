"""Real broker processes, and the means to harm them: strace to fail or kill at a system call, a small disk to fill."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from tests.adversity.load import client
from tests.adversity.oracle import Oracle

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
CONDITION_SECONDS_MAX = 30.0

TORTURE = os.environ.get("COURIER_WORKLOAD") == "torture"
SEED = int(os.environ.get("COURIER_WORKLOAD_SEED", "20260219"))


# With -D, strace is the child of what it traces: signals and the exit code are the broker's own. Rejected:
# --seccomp-bpf, which is faster, but forgets to inject a signal that is not due at the first call (strace 6.1).
STRACE = ("strace", "-D", "-f", "-qq", "-o", os.devnull)


class BrokerEnded(Exception):
    """The process ended before it listened."""

    def __init__(self, code: int, errors: str) -> None:
        super().__init__(f"the broker ended with {code} before it listened:\n{errors}")
        self.code = code
        self.errors = errors


class BrokerProcess:
    """`python -m broker serve` on a free port; `strace` are the options that fail or kill it at a system call."""

    def __init__(self, data: Path, *, strace: Sequence[str] = (), settings: dict[str, str] | None = None) -> None:
        self.data = data
        self.database = data / "courier.db"
        self.url = ""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `_collect`; never on a disk that is full
        self._errors = ""
        tracer = [*STRACE, *strace] if strace else []
        serve = [sys.executable, "-m", "broker", "serve", "--port", "0", "--data", str(data)]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COURIER_")}
        self.process = subprocess.Popen(
            [*tracer, *serve], env=inherited | (settings or {}), stdout=subprocess.PIPE, stderr=self._stderr
        )

    async def listening(self) -> None:
        """Wait until it listens; raise BrokerEnded when it never will."""
        await asyncio.to_thread(self._read_address)
        if not self.url:
            raise BrokerEnded(await self.ended(), self.errors)

    def _read_address(self) -> None:
        output = self.process.stdout
        assert output is not None
        too_late = threading.Timer(START_SECONDS_MAX, self.process.kill)
        too_late.start()
        try:
            with output:
                found = re.search(rb"http://[^,\s]+", output.readline())
                if found is not None:
                    output.readline()
                    self.url = found[0].decode()
        finally:
            too_late.cancel()

    @property
    def errors(self) -> str:
        """What it wrote to stderr."""
        if not self._stderr.closed:
            descriptor = self._stderr.fileno()
            self._errors = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
        return self._errors

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    async def ended(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        await asyncio.to_thread(self.process.wait, STOP_SECONDS_MAX)
        return self._collect()

    def _collect(self) -> int:
        """Keep what it wrote, and no descriptor: thousands of these may die in one test."""
        self._errors = self.errors
        self._stderr.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.process.returncode

    async def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        assert await self.ended() == -signal.SIGKILL, self.errors

    async def stop(self) -> None:
        """Drain; raise AssertionError unless it ends well."""
        self.process.terminate()
        assert await self.ended() == 0, self.errors

    def abandon(self) -> None:
        """End it whatever it is at, after a test."""
        if self.running:
            self.process.kill()
        self.process.wait(STOP_SECONDS_MAX)
        self._collect()


StartBroker = Callable[..., "asyncio.Future[BrokerProcess]"]


@pytest.fixture
async def start_broker() -> AsyncIterator[StartBroker]:
    """`await start_broker(directory, strace=…, settings=…)`; whatever is left is ended after the test."""
    started: list[BrokerProcess] = []

    async def start(data: Path, *, strace: Sequence[str] = (), settings: dict[str, str] | None = None) -> BrokerProcess:
        broker = BrokerProcess(data, strace=strace, settings=settings)
        started.append(broker)
        await broker.listening()
        return broker

    yield start
    for broker in started:
        broker.abandon()


@pytest.fixture
def oracle() -> Oracle:
    """An oracle of its own for each test."""
    return Oracle(SEED)


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Wait for a condition; raise AssertionError when it takes too long."""
    deadline = asyncio.get_running_loop().time() + CONDITION_SECONDS_MAX
    while not (await outcome if isinstance(outcome := condition(), Awaitable) else outcome):
        assert asyncio.get_running_loop().time() < deadline, f"seed {SEED}: waited in vain until {what}"
        await asyncio.sleep(0.02)


async def probe(url: str, path: str) -> tuple[int, dict[str, object]]:
    """Ask /livez or /readyz."""
    async with client() as session, session.get(f"{url}{path}") as response:
        return response.status, await response.json()


class Subscriber:
    """A consumer on `/v1/subscribe` that keeps what it was delivered and acknowledges only when told to."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.delivered: dict[str, int] = {}
        """Every event that came, by id, with its sequence."""

    async def grant(self, credit: int) -> None:
        """Ask for more."""
        await self._socket.send_json({"credit": credit})

    async def ack(self, event_id: str) -> None:
        """Be done with one."""
        await self._socket.send_json({"ack": event_id})

    async def take(self) -> str:
        """Wait for the next delivery; its id. Raise ConnectionError when the line is cut."""
        message = await self._socket.receive(timeout=CONDITION_SECONDS_MAX)
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise ConnectionResetError(f"the broker closed the connection: {message}")
        frame = message.json()
        assert "deliver" in frame, f"seed {SEED}: {frame}"
        event_id: str = frame["deliver"]["id"]
        self.delivered[event_id] = frame["seq"]
        return event_id

    async def take_until(self, expected: set[str], *, ack: bool = True) -> None:
        """Take deliveries until all of these have come."""
        while not expected <= self.delivered.keys():
            event_id = await self.take()
            if ack:
                await self.ack(event_id)
            await self.grant(1)


@pytest.fixture(scope="session")
def needs_strace() -> None:
    """Skip, and say why, where strace is missing or may not trace."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed, so that no system call can be made to fail")
    tried = subprocess.run([*STRACE, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"strace cannot trace here: {tried.stderr.decode().strip()}")


SMALL_DISK_BYTES = 8 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 8 MiB, unmounted afterwards whatever happens."""
    if os.geteuid() != 0:
        pytest.skip("not root, so that no small file system can be mounted to be filled")
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES},mode=0700", "courier-test", str(where)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted: {mounted.stderr.decode().strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)

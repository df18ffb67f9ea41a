"""The failure scenarios of 000 §9, end to end: daemon and server are processes that are killed, lines are cut.

Every body runs against the reference server, and against the broker.
"""

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from tests.adversity.conftest import SEED, TORTURE, until
from tests.adversity.edge_device import Aim, Device, ForkedDevice, Proxy, Refused, envelope
from tests.edge.processes import CourierProcess, ReferenceProcess, Server, broker_takes_device_events

KILLS = 5_000 if TORTURE else 100
"""Of the device, against each server."""
SERVER_KILLS = 500 if TORTURE else 5
LIFE_SECONDS_MAX = 0.1
CALLS_MAX = 20
POINTS: dict[str, tuple[tuple[str, str], ...]] = {
    "put": (("Store", "put"), ("Outbox", "put_event")),
    "send": (("SocketLine", "send"),),
    "ack": (("Flights", "answer"), ("Flights", "take_answered")),
    "delete": (("Store", "acknowledge"), ("Flights", "landed")),
    "any": (),
}
"""Where the device dies. `Store` is in the transaction of a put or a delete, the other one is before or after it."""
SYNCS = range(1, 400) if TORTURE else (4, 5, 6, 7, 9, 12, 17, 25)
"""The sync of the outbox at which the device dies; the first few make the file."""

KINDS = {"reference": ReferenceProcess, "broker": CourierProcess}


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    if request.param == "broker" and not broker_takes_device_events():
        pytest.skip("this broker does not take the events of devices yet")
    server: Server = KINDS[request.param](tmp_path)
    server.start()
    yield server
    server.close()


@pytest.fixture
async def device(server: Server, tmp_path: Path) -> AsyncIterator[Device]:
    device = Device(tmp_path / "outbox.db", server.url, random.Random(SEED))
    yield device
    device.kill()


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    proxy = Proxy(int(server.url.rpartition(":")[2]))
    await proxy.start()
    yield proxy
    await proxy.close()


def left(device: Device) -> int:
    """How many rows the outbox has."""
    connection = apsw.Connection(str(device.path))
    try:
        count: int = connection.execute("SELECT count(*) FROM outbox").get
        return count
    finally:
        connection.close()


async def test_what_was_stored_before_the_line_dropped_is_sent_again_and_is_there_once(
    server: Server, device: Device, proxy: Proxy
) -> None:
    device.url, proxy.swallow_answers = proxy.url, True
    await device.start()
    await device.produce(200)
    await until(lambda: len(server.stored()) == 200, "everything is stored, and no answer came back")
    assert left(device) == 200
    await proxy.cut()
    proxy.swallow_answers = False
    await device.drain()
    assert proxy.swallowed > 0
    assert device.check(server) == 200
    assert left(device) == 0


async def test_a_line_that_is_cut_again_and_again_brings_everything_in_the_end(
    server: Server, device: Device, proxy: Proxy
) -> None:
    device.url = proxy.url
    await device.start()
    rng = random.Random(SEED)
    producing = asyncio.create_task(device.produce(3000))
    while not producing.done():
        await until(lambda: proxy.connections > 0, "a line is open")
        await asyncio.sleep(rng.uniform(0.0, 0.05))  # the moment of the cut
        await proxy.cut()
    await producing
    await device.drain()
    assert device.check(server) == 3000


async def test_an_event_that_is_put_again_after_it_arrived_is_there_once(server: Server, device: Device) -> None:
    await device.start()
    line = envelope("evt_again", random.Random(SEED))
    for _ in range(3):
        device.doubted["evt_again"] = line
        await device.produce(1)
        await device.drain()
    assert "evt_again" in device.promised
    assert device.check(server) == 31
    assert left(device) == 0


async def test_the_device_may_die_at_any_moment(server: Server, tmp_path: Path) -> None:
    """kill -9 at random points of put, send, ack and delete; what it has promised arrives, once."""
    rng = random.Random(SEED)
    device = ForkedDevice(tmp_path / "outbox.db", server.url, rng)
    died: Counter[str] = Counter()
    try:
        for number in range(KILLS):
            point = list(POINTS)[number % len(POINTS)]
            await live_and_die(device, point, rng)
            died[point] += 1
        await device.be_born()
        await device.produce(10)
        assert not device.doubted
        await device.drain()
    finally:
        await device.leave()
    found = device.check(server)
    print(f"seed {SEED}: {KILLS} kills ({dict(died)}), {found} events")
    assert min(died[point] for point in POINTS) >= KILLS // len(POINTS)
    assert found > KILLS
    assert left(device) == 0


async def live_and_die(device: ForkedDevice, point: str, rng: random.Random) -> None:
    """One life that ends at a point: by itself when it is there, or from outside at any time."""
    aim = None
    if POINTS[point]:
        aim = Aim(*rng.choice(POINTS[point]), rng.randint(1, CALLS_MAX), rng.choice((False, True)))
    await device.be_born(aim)
    device.progress.clear()
    producing = asyncio.create_task(device.produce(100_000))
    try:
        if aim is None:
            await asyncio.wait_for(device.progress.wait(), 30)
            await asyncio.sleep(rng.uniform(0.0, LIFE_SECONDS_MAX))  # the moment of the kill
            device.pull_the_plug()
        assert await device.ended() == -signal.SIGKILL, aim
    finally:
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)


@pytest.mark.usefixtures("needs_strace")
async def test_the_device_may_die_at_any_sync(server: Server, device: Device) -> None:
    """The same, but exactly between a write and its sync: of a put, of a delete, of a checkpoint."""
    died = 0
    for sync in SYNCS:
        daemon = device.start_under(("-e", f"inject=fdatasync,fsync:signal=KILL:when={sync}"))
        try:
            await asyncio.to_thread(daemon.ready)
        except AssertionError:
            died += 1
            device.kill()
            continue
        for _ in range(200):
            if daemon.process.poll() is not None:
                break
            await device.produce(10)
        died += daemon.process.poll() == -signal.SIGKILL
        device.kill()
    assert died >= len(SYNCS) - 1
    await device.start()
    await device.produce(10)
    await device.drain()
    device.check(server)


async def test_the_server_may_die_at_any_moment_too(server: Server, device: Device) -> None:
    """Before its commit or after it; the device asks again, and everything is there once."""
    rng = random.Random(SEED + 1)
    await device.start()
    producing = asyncio.create_task(device.produce(100_000))
    for _ in range(SERVER_KILLS):
        before = len(device.promised)
        await until(lambda before=before: len(device.promised) > before, "the device goes on without a server")
        await asyncio.sleep(rng.uniform(0.0, LIFE_SECONDS_MAX))  # the moment of the kill
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    producing.cancel()
    await asyncio.gather(producing, return_exceptions=True)
    await device.produce(10)
    await device.drain()
    device.check(server)
    assert left(device) == 0


@pytest.mark.parametrize("moment", ["--die-before-commit", "--die-after-commit"])
async def test_a_server_that_dies_around_its_commit_is_asked_again(moment: str, tmp_path: Path) -> None:
    server = ReferenceProcess(tmp_path)
    server.start(moment, "2")
    device = Device(tmp_path / "outbox.db", server.url, random.Random(SEED))
    try:
        await device.start()
        while server_lives(server):
            await device.produce(10)
        stored = len(server.stored())
        assert stored < len(device.promised) or moment == "--die-after-commit"
        assert left(device) >= 1
        server.start()
        await device.drain()
        assert device.check(server) == len(device.promised) > stored - 1
    finally:
        device.kill()
        server.close()


def server_lives(server: ReferenceProcess) -> bool:
    assert server._child is not None
    if server._child.process.poll() is None:
        return True
    server.wait()
    return False


@pytest.mark.usefixtures("needs_strace")
@pytest.mark.parametrize("sync", [15, 30])
async def test_after_a_failed_sync_nothing_more_is_promised_and_the_daemon_ends(sync: int, tmp_path: Path) -> None:
    """A later success would prove nothing; systemd starts it anew, and everything that was promised is there."""
    device = Device(tmp_path / "outbox.db", "ws://127.0.0.1:1", random.Random(SEED))
    try:
        daemon = device.start_under(("-e", f"inject=fdatasync,fsync:error=EIO:when={sync}"))
        await asyncio.to_thread(daemon.ready)
        with contextlib.suppress(Refused):
            while daemon.process.poll() is None:
                await device.produce(10)
        assert await asyncio.to_thread(daemon.wait) == 74
        assert "the outbox failed, nothing more is taken" in daemon.errors
        promised = set(device.promised)
        assert promised
        await device.start()
        assert promised <= stored_ids(device)
        await device.produce(10)
    finally:
        device.kill()


def stored_ids(device: Device) -> set[str]:
    connection = apsw.Connection(str(device.path))
    try:
        return {str(event_id) for (event_id,) in connection.execute("SELECT event_id FROM outbox")}
    finally:
        connection.close()

"""The daemon pages: how much waits in the outbox does not show in its memory."""

import asyncio
import random
from pathlib import Path

import apsw
import pytest

from edge import Outbox
from tests.adversity.conftest import TORTURE, until
from tests.adversity.edge_device import Device, envelope
from tests.edge.processes import ReferenceProcess

ROWS = 1_000_000 if TORTURE else 60_000
MEMORY_MIB_MAX = 60
GROWTH_MIB_MAX = 15


def fill(path: Path, count: int) -> None:
    """Put many rows at once, as `put` leaves them."""
    connection = apsw.Connection(str(path))
    template = envelope("evt_0", random.Random(1)).decode()
    try:
        with connection:
            connection.execute(
                """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
                INSERT INTO outbox (rowid, event_id, payload_json, created_at, lane, bytes)
                SELECT i, 'evt_' || i, replace(?, 'evt_0', 'evt_' || i), 1, 'default', 500 FROM n""",
                (count, template),
            )
            connection.execute(
                "INSERT OR REPLACE INTO lanes (lane, rows, bytes) VALUES ('default', ?, ?)", (count, 500 * count)
            )
    finally:
        connection.close()


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel does not say")


async def test_a_daemon_with_many_rows_waiting_needs_no_more_memory_than_one_with_none(tmp_path: Path) -> None:
    server = ReferenceProcess(tmp_path)
    server.start()
    peaks = []
    devices = []
    try:
        for name, count in (("empty", 100), ("full", ROWS)):
            path = tmp_path / f"{name}.db"
            async with Outbox(path, device_id="pi-1"):
                pass
            await asyncio.to_thread(fill, path, count)
            device = Device(path, server.url, random.Random(1), prefix=name)
            devices.append(device)
            await device.start(COURIER_EDGE_MAX_ROWS=str(2 * ROWS), COURIER_EDGE_MAX_BYTES="2000000000")
            await device.produce(100)
            enough = len(server.stored()) + min(count, 5_000) - 200
            await until(lambda enough=enough: len(server.stored()) >= enough, "it sends")
            assert device.daemon is not None
            peaks.append(peak_mib(device.daemon.process.pid))
            device.kill()
    finally:
        for device in devices:
            device.kill()
        server.close()
    print(f"{ROWS} rows: {peaks[1]:.1f} MiB, none: {peaks[0]:.1f} MiB")
    assert peaks[1] < peaks[0] + GROWTH_MIB_MAX
    assert peaks[1] < MEMORY_MIB_MAX


@pytest.mark.parametrize("count", [3000])
async def test_new_events_overtake_a_long_backlog_by_their_share(count: int, tmp_path: Path) -> None:
    server = ReferenceProcess(tmp_path)
    server.start()
    path = tmp_path / "outbox.db"
    async with Outbox(path, device_id="pi-1"):
        pass
    await asyncio.to_thread(fill, path, count)
    device = Device(path, server.url, random.Random(1), prefix="new")
    try:
        await device.start(COURIER_EDGE_WINDOW="20")
        await until(lambda: len(server.stored()) > 0, "the backlog is on its way")
        await device.produce(10)
        await until(lambda: any(event_id.startswith("new_") for event_id, _ in server.stored()), "a new one arrived")
        assert len(server.stored()) < count
        await device.drain()
        assert len(server.stored()) == count + 10
    finally:
        device.kill()
        server.close()

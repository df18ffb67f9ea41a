"""A full disk: writes are refused for the time being, reads go on, and room is all that it takes to recover."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.adversity.conftest import (
    CONDITION_SECONDS_MAX,
    BrokerEnded,
    BrokerProcess,
    StartBroker,
    Subscriber,
    probe,
    until,
)
from tests.adversity.load import JSON, Load, client, envelope_of, identity_of
from tests.adversity.oracle import Oracle

BALLAST_BYTES = 6 * 1024 * 1024
REQUESTS = 400
PAYLOAD_BYTES_MAX = 60_000
STREAM = "load/0"


class Ballast:
    """A file that takes up room beside the journal until it is removed."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "ballast"

    def write(self, size: int) -> None:
        """Take up so much."""
        self._path.write_bytes(bytes(size))

    def fill(self) -> None:
        """Take up everything, to the last block."""
        with self._path.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def remove(self) -> None:
        """Make room."""
        self._path.unlink()


async def fill(load: Load, broker: BrokerProcess) -> None:
    """Send until the disk is full, and check how that is said."""
    await load.run(broker.url, REQUESTS, until_failure=True)
    assert 507 in load.statuses, f"seed {load.oracle.seed}: {REQUESTS} requests did not fill the disk"
    assert set(load.statuses) <= {200, 400, 507}, set(load.statuses)
    assert all("'disk_full'" in why and "'retryable': True" in why for why in load.oracle.doubts.values())


async def check_full(load: Load, broker: BrokerProcess, payload_bytes: int = 500_000) -> None:
    """What a client sees while the disk is full. A small event may still fit."""
    url = broker.url
    identity = identity_of(STREAM, f"large-{len(load.statuses)}")
    envelope = envelope_of(STREAM, identity[1], "x" * payload_bytes)

    async def not_ready() -> bool:
        async with client() as session:
            assert await load.send(session, url, identity, envelope) == 507
        status, ready = await probe(url, "/readyz")
        return status == 503 and ready["status"] == "not ready" and "full" in str(ready["reasons"])

    await until(not_ready, "/readyz says that the disk is full")
    assert (await probe(url, "/livez"))[0] == 200
    load.oracle.sending(identity, envelope)
    body = b'{"to":"load/0","envelope":%b}' % envelope
    async with client() as session, session.post(f"{url}/v1/enqueue", data=body, headers=JSON) as response:
        assert response.status == 507
        assert int(response.headers["Retry-After"]) >= 1
        error = (await response.json())["error"]
        assert (error["code"], error["retryable"]) == ("disk_full", True)
    load.oracle.check(broker.database, live=True)


async def read_all(broker: BrokerProcess, oracle: Oracle) -> set[str]:
    """A subscriber gets everything that is stored, and is done with it."""
    rows = oracle.check(broker.database, live=True)
    stored = {row.identity[1] for row in rows if row.identity[0] == f"stream:{STREAM}" and row.state == 0}
    assert stored
    async with client() as session, session.ws_connect(f"{broker.url}/v1/subscribe?stream={STREAM}") as socket:
        subscriber = Subscriber(socket)
        await subscriber.grant(1_000)
        async with asyncio.timeout(CONDITION_SECONDS_MAX):
            await subscriber.take_until(stored)
    assert set(subscriber.delivered) == stored
    return stored


async def wait_until_ready(broker: BrokerProcess) -> None:
    """The broker finds out by itself that there is room; nobody has to send anything for that."""

    async def ready() -> bool:
        return (await probe(broker.url, "/readyz"))[0] == 200

    await until(ready, "the broker is ready again")


async def check_recovered(load: Load, broker: BrokerProcess) -> None:
    """Everything in doubt settles, and the broker works as before."""
    await load.settle_doubts(broker.url)
    before = len(load.oracle.acknowledged)
    await load.run(broker.url, 50)
    assert not load.failed
    assert len(load.oracle.acknowledged) > before
    assert (await probe(broker.url, "/readyz"))[0] == 200
    assert broker.running
    await broker.stop()
    load.oracle.check(broker.database)


async def test_a_disk_that_fills_up_refuses_writes_serves_reads_and_recovers_by_itself(
    start_broker: StartBroker, small_disk: Path, oracle: Oracle
) -> None:
    ballast = Ballast(small_disk)
    ballast.write(BALLAST_BYTES)
    broker = await start_broker(small_disk / "data")
    load = Load(oracle, payload_bytes_max=PAYLOAD_BYTES_MAX)
    await fill(load, broker)
    await check_full(load, broker)
    await read_all(broker, oracle)
    ballast.remove()
    await wait_until_ready(broker)
    await check_recovered(load, broker)


async def test_a_disk_that_others_fill_at_once_refuses_writes_and_recovers_by_itself(
    start_broker: StartBroker, small_disk: Path, oracle: Oracle
) -> None:
    ballast = Ballast(small_disk)
    broker = await start_broker(small_disk / "data")
    load = Load(oracle, payload_bytes_max=2_000)
    for _ in range(3):
        await load.run(broker.url, 50)
        assert not load.failed
        ballast.fill()
        await load.run(broker.url, 50)
        assert load.failed
        await check_full(load, broker, 5_000)
        taken = await read_all(broker, oracle)
        await check_full(load, broker, 5_000)
        ballast.remove()
        await wait_until_ready(broker)

        def outcomes_are_stored(taken: set[str] = taken) -> bool:
            rows = oracle.check(broker.database, live=True)
            return all(row.state == 1 for row in rows if row.identity[1] in taken)

        await until(outcomes_are_stored, "the acknowledgements of the full time are on disk")
    await check_recovered(load, broker)


@pytest.mark.usefixtures("needs_strace")
async def test_a_disk_that_fills_up_under_a_checkpoint_recovers_by_itself(
    start_broker: StartBroker, small_disk: Path, oracle: Oracle, tmp_path: Path
) -> None:
    """With a small bound for the WAL, it is copying the WAL into the database that runs out of room first."""
    ballast = Ballast(small_disk)
    ballast.write(BALLAST_BYTES)
    seen = tmp_path / "failed-writes"
    watch = ["-o", str(seen), "-e", "trace=pwrite64", "-e", "status=failed", "-P", str(small_disk / "data/courier.db")]
    settings = {"COURIER_JOURNAL__WAL_MAX_BYTES": str(1024 * 1024)}
    broker = await start_broker(small_disk / "data", strace=watch, settings=settings)
    load = Load(oracle, payload_bytes_max=PAYLOAD_BYTES_MAX)
    await load.run(broker.url, REQUESTS, until_failure=True)
    await check_full(load, broker)
    assert "ENOSPC" in seen.read_text(), "the checkpoint did find room"
    ballast.remove()
    await wait_until_ready(broker)
    await check_recovered(load, broker)


@pytest.mark.parametrize("to_the_last_block", [False, True])
async def test_a_kill_on_a_full_disk_loses_nothing_and_the_restart_works_or_says_why_not(
    to_the_last_block: bool, start_broker: StartBroker, small_disk: Path, oracle: Oracle
) -> None:
    ballast = Ballast(small_disk)
    ballast.write(BALLAST_BYTES)
    broker = await start_broker(small_disk / "data")
    load = Load(oracle, payload_bytes_max=PAYLOAD_BYTES_MAX)
    await fill(load, broker)
    await broker.kill()
    oracle.check(broker.database)
    if to_the_last_block:
        for name in ("courier.db-shm", "courier.lock"):
            (small_disk / "data" / name).unlink()
        ballast.fill()
        assert os.statvfs(small_disk).f_bavail == 0
        with pytest.raises(BrokerEnded) as ended:
            await start_broker(small_disk / "data")
        assert ended.value.code in (74, 78), ended.value
        assert "Traceback" not in ended.value.errors, ended.value
        why = r"courier: .*data(/courier\.db)?: cannot be (opened|used as data directory): .*(full|No space).*"
        assert re.fullmatch(why, ended.value.errors.splitlines()[-1]), ended.value
        oracle.check(broker.database)
        ballast.remove()
        broker = await start_broker(small_disk / "data")
    else:
        broker = await start_broker(small_disk / "data")
        await check_full(load, broker)
        await read_all(broker, oracle)
        ballast.remove()
        await wait_until_ready(broker)
    await check_recovered(load, broker)

"""A disk that fails: nothing is acknowledged any more. A database that is locked: everything is, only later."""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import apsw
import pytest

from broker.app import App
from broker.cli import exits
from broker.config import Config, Server
from broker.journal import backoff, connection
from broker.journal.failures import Severity, severity
from tests.adversity.conftest import SEED, TORTURE, BrokerEnded, BrokerProcess, StartBroker, probe, until
from tests.adversity.load import Load, client
from tests.adversity.oracle import Oracle

REQUESTS = 3_000
CHECKPOINT_OFTEN = {"COURIER_JOURNAL__WAL_MAX_BYTES": str(1024 * 1024)}


def fail(calls: str, when: int, only: Path | None = None) -> list[str]:
    """The options of strace that fail one call, `only` on one file, with an I/O error."""
    path = ["-P", str(only)] if only is not None else []
    return ["-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO:when={when}", *path]


async def check_end_and_restart(broker: BrokerProcess, load: Load, start_broker: StartBroker) -> None:
    """The broker gave up as promised, and its successor has everything that was acknowledged."""
    oracle = load.oracle
    assert await broker.ended() == exits.STORAGE, broker.errors
    assert broker.errors.splitlines()[-1].startswith("courier: storage failed, nothing more is acknowledged: ")
    assert "Traceback" not in broker.errors
    assert load.failed, f"seed {oracle.seed}: nobody was told"
    assert load.acknowledged_after_failure == 0, f"seed {oracle.seed}: acknowledged after the disk had failed"
    told = [why for why in oracle.doubts.values() if why[0] == "5"]
    assert all(why.startswith("503 ") and "'storage_failed'" in why for why in told), told
    oracle.check(broker.database)
    successor = await start_broker(broker.data)
    await load.settle_doubts(successor.url)
    await load.run(successor.url, 50)
    assert not load.failed
    await successor.stop()
    oracle.check(successor.database)


@pytest.mark.usefixtures("needs_strace")
@pytest.mark.parametrize("sync", [1, 2, 3, 5, 9, 20, 50, *(range(60, 200) if TORTURE else [])])
async def test_after_a_failed_sync_nothing_is_acknowledged_and_a_restart_has_everything_before(
    sync: int, start_broker: StartBroker, oracle: Oracle, tmp_path: Path
) -> None:
    await (await start_broker(tmp_path / "data")).stop()
    load = Load(oracle)
    wal = tmp_path / "data" / "courier.db-wal"
    broker = await start_broker(tmp_path / "data", strace=fail("fdatasync,fsync", sync, wal))
    await load.run(broker.url, REQUESTS)
    await check_end_and_restart(broker, load, start_broker)


@pytest.mark.usefixtures("needs_strace")
@pytest.mark.parametrize("write", [1, 2, 3, 8, 40, 200, *(range(201, 500, 10) if TORTURE else [])])
async def test_after_a_failed_write_to_the_wal_nothing_is_acknowledged(
    write: int, start_broker: StartBroker, oracle: Oracle, tmp_path: Path
) -> None:
    await (await start_broker(tmp_path / "data")).stop()
    load = Load(oracle)
    wal = tmp_path / "data" / "courier.db-wal"
    broker = await start_broker(tmp_path / "data", strace=fail("pwrite64", write, wal))
    await load.run(broker.url, REQUESTS)
    await check_end_and_restart(broker, load, start_broker)


@pytest.mark.usefixtures("needs_strace")
@pytest.mark.parametrize("calls", ["pwrite64", "fdatasync,fsync"])
@pytest.mark.parametrize("settings", [CHECKPOINT_OFTEN, {}], ids=["by the writer", "by the checkpointer"])
async def test_after_a_failed_checkpoint_nothing_is_acknowledged(
    calls: str, settings: dict[str, str], start_broker: StartBroker, oracle: Oracle, tmp_path: Path
) -> None:
    await (await start_broker(tmp_path / "data")).stop()
    load = Load(oracle, payload_bytes_max=60_000)
    inject = fail(calls, 1, tmp_path / "data" / "courier.db")
    broker = await start_broker(tmp_path / "data", strace=inject, settings=settings)
    await load.run(broker.url, REQUESTS)
    await check_end_and_restart(broker, load, start_broker)
    assert "cannot be checkpointed" in broker.errors


@pytest.mark.usefixtures("needs_strace")
@pytest.mark.parametrize(("call", "when"), [*(("fdatasync", n) for n in (1, 3, 4, 5, 7)), ("fsync", 1), ("fsync", 2)])
async def test_a_disk_that_fails_during_the_start_is_a_clear_message_and_the_next_start_works(
    call: str, when: int, start_broker: StartBroker, oracle: Oracle, tmp_path: Path
) -> None:
    """SQLite's second and sixth fdatasync are of the directory, and it ignores what becomes of them; fsync is ours."""
    with pytest.raises(BrokerEnded) as ended:
        await start_broker(tmp_path / "data", strace=fail(call, when))
    assert ended.value.code in (exits.CONFIG, exits.STORAGE), ended.value
    assert "Traceback" not in ended.value.errors, ended.value
    why = r"courier: .*data(/courier\.db)?: cannot be (opened|used as data directory): .*(disk I/O|Input/output) error"
    assert re.fullmatch(why, ended.value.errors.splitlines()[-1]), ended.value
    load = Load(oracle)
    broker = await start_broker(tmp_path / "data")
    await load.run(broker.url, 20)
    await broker.stop()
    oracle.check(broker.database)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (apsw.SQLITE_BUSY, Severity.TRANSIENT),
        (apsw.SQLITE_BUSY_RECOVERY, Severity.TRANSIENT),
        (apsw.SQLITE_BUSY_SNAPSHOT, Severity.TRANSIENT),
        (apsw.SQLITE_LOCKED, Severity.TRANSIENT),
        (apsw.SQLITE_LOCKED_SHAREDCACHE, Severity.TRANSIENT),
        (apsw.SQLITE_NOMEM, Severity.TRANSIENT),
        (apsw.SQLITE_INTERRUPT, Severity.TRANSIENT),
        (apsw.SQLITE_PROTOCOL, Severity.TRANSIENT),
        (apsw.SQLITE_IOERR_LOCK, Severity.TRANSIENT),
        (apsw.SQLITE_IOERR_RDLOCK, Severity.TRANSIENT),
        (apsw.SQLITE_IOERR_BLOCKED, Severity.TRANSIENT),
        (apsw.SQLITE_IOERR_NOMEM, Severity.TRANSIENT),
        (apsw.SQLITE_FULL, Severity.FULL),
        (apsw.SQLITE_IOERR_SHMSIZE, Severity.FULL),
        (apsw.SQLITE_IOERR, Severity.FATAL),
        (apsw.SQLITE_IOERR_WRITE, Severity.FATAL),
        (apsw.SQLITE_IOERR_READ, Severity.FATAL),
        (apsw.SQLITE_IOERR_SHORT_READ, Severity.FATAL),
        (apsw.SQLITE_IOERR_FSYNC, Severity.FATAL),
        (apsw.SQLITE_IOERR_DIR_FSYNC, Severity.FATAL),
        (apsw.SQLITE_IOERR_TRUNCATE, Severity.FATAL),
        (apsw.SQLITE_IOERR_SHMMAP, Severity.FATAL),
        (apsw.SQLITE_IOERR_CORRUPTFS, Severity.FATAL),
        (apsw.SQLITE_CORRUPT, Severity.FATAL),
        (apsw.SQLITE_CORRUPT_INDEX, Severity.FATAL),
        (apsw.SQLITE_NOTADB, Severity.FATAL),
        (apsw.SQLITE_READONLY, Severity.FATAL),
        (apsw.SQLITE_READONLY_DBMOVED, Severity.FATAL),
        (apsw.SQLITE_ERROR, Severity.FATAL),
        (0, Severity.FATAL),
        (77, Severity.FATAL),
    ],
)
def test_a_result_code_passes_or_means_no_room_or_is_the_end(code: int, expected: Severity) -> None:
    assert severity(code) is expected


def test_every_io_error_that_sqlite_knows_is_the_end_unless_it_is_about_locks_memory_or_room() -> None:
    codes = {name: getattr(apsw, name) for name in dir(apsw) if name.startswith("SQLITE_IOERR_")}
    passing = {name.removeprefix("SQLITE_IOERR_") for name, code in codes.items() if severity(code) != Severity.FATAL}
    assert len(codes) > 25
    assert passing == {"RDLOCK", "UNLOCK", "BLOCKED", "NOMEM", "CHECKRESERVEDLOCK", "LOCK", "SHMSIZE"}


def test_the_first_attempt_is_immediate_four_more_are_jittered_and_the_rest_wait_five_seconds() -> None:
    rng = random.Random(SEED)
    assert backoff.delay_before(1, rng) == 0.0
    for attempt, most in [(2, 0.1), (3, 0.2), (4, 0.4), (5, 0.8)]:
        delays = [backoff.delay_before(attempt, rng) for _ in range(2_000)]
        assert 0.0 <= min(delays) < 0.05 * most, "full jitter begins at zero"
        assert 0.95 * most < max(delays) <= most
    for attempt in (6, 7, 100):
        delays = [backoff.delay_before(attempt, rng) for _ in range(200)]
        assert 5.0 <= min(delays) < max(delays) <= 5.1
    assert [backoff.past_budget(attempt) for attempt in (1, 5, 6)] == [False, False, True]


def test_no_delay_within_the_budget_passes_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "ATTEMPTS_IN_BUDGET", 20)
    delays = [backoff.delay_before(attempt, random.Random(n)) for attempt in range(2, 21) for n in range(50)]
    assert 4.0 < max(delays) <= 5.0


@asynccontextmanager
async def broker_in_process(data: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """A broker that gives up waiting for a lock soon, so that its retries can be watched."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 10)
    app = await App.start(Config(data=str(data), server=Server(port=0)))
    try:
        yield app
    finally:
        await app.drain()


def lock(database: Path) -> apsw.Connection:
    """Another program that begins a write and does not finish it."""
    other = apsw.Connection(str(database))
    other.execute("BEGIN IMMEDIATE")
    return other


async def test_a_batch_that_meets_a_lock_is_tried_again_and_acknowledged_once(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Load(oracle)
    async with broker_in_process(tmp_path, monkeypatch) as app, client() as session:
        with closing(lock(app.journal.path)):
            events = [load.new_event() for _ in range(5)]
            sending = [
                asyncio.create_task(load.send(session, app.server.address, *event)) for event in [*events, events[0]]
            ]
            await until(lambda: app.journal.health.retries >= 2, "the writer tries again")
            assert app.journal.health.fatal is None
            assert not any(task.done() for task in sending), "nothing is acknowledged while it is not on disk"
        assert await asyncio.gather(*sending) == [200] * 6
        assert app.journal.health.problem is None
        assert len(oracle.check(app.journal.path, live=True)) == 5
        assert sum(told.duplicate for told in oracle.acknowledged) == 1


async def test_a_lock_past_the_budget_is_critical_while_the_broker_stays_up_and_recovers(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "BASE_SECONDS", 0.01)
    monkeypatch.setattr(backoff, "CAP_SECONDS", 0.1)
    load = Load(oracle)
    async with broker_in_process(tmp_path, monkeypatch) as app, client() as session:
        url = app.server.address
        with closing(lock(app.journal.path)):
            sending = asyncio.create_task(load.send(session, url, *load.new_event()))
            await until(lambda: app.journal.health.critical, "the health turns critical")
            assert app.journal.health.retries >= backoff.ATTEMPTS_IN_BUDGET
            status, ready = await probe(url, "/readyz")
            assert (status, ready["status"]) == (503, "not ready")
            assert "database is locked" in str(ready["reasons"])
            assert (await probe(url, "/livez"))[0] == 200
            assert not app.failed.is_set()
            assert not sending.done()
        assert await sending == 200
        assert (await probe(url, "/readyz"))[0] == 200
        assert len(oracle.check(app.journal.path, live=True)) == 1

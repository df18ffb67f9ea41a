"""The WAL stays short under load, and a reader that pins it is noticed."""

import logging
from pathlib import Path

import apsw
import pytest

from broker.errors import StorageFailed
from broker.journal import checkpointer
from broker.journal.connection import open_reader
from broker.journal.journal import Journal
from tests.journal.conftest import OpenJournal, event, until

BOUND = 1024 * 1024


@pytest.fixture
async def small(open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """A journal with a WAL bound of 1 MiB that looks at its WAL often."""
    monkeypatch.setattr(checkpointer, "LOOK_EVERY_BYTES", 64 * 1024)
    monkeypatch.setattr(checkpointer, "COPY_FROM_BYTES", 256 * 1024)
    return await open_journal(wal_max_bytes=BOUND)


async def fill(journal: Journal, start: int, megabytes: int) -> None:
    for n in range(start, start + megabytes * 10):
        await journal.append([event(f"e{n}-{k}", envelope=b"x" * 1000) for k in range(100)])


def wal_bytes(directory: Path) -> int:
    return (directory / "courier.db-wal").stat().st_size


async def test_the_wal_stays_near_its_bound_under_a_constant_load(small: Journal, tmp_path: Path) -> None:
    await fill(small, 0, megabytes=12)
    assert wal_bytes(tmp_path) < 2 * BOUND
    assert not small.health.wal_pinned
    assert small.health.checkpoints_by_thread + small.health.checkpoints_by_writer > 0


async def test_a_reader_that_pins_the_wal_raises_an_alarm_that_ends_with_it(
    small: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await small.append([event("first")])
    pin = open_reader(small.path)
    pin.execute("BEGIN; SELECT count(*) FROM ledger").fetchall()
    with caplog.at_level(logging.WARNING):
        await fill(small, 0, megabytes=4)
    assert small.health.wal_pinned
    assert [record.message for record in caplog.records if "reader holds an old snapshot" in record.message]
    pin.close()
    await fill(small, 100, megabytes=4)
    assert not small.health.wal_pinned


async def test_everything_is_there_after_many_checkpoints(small: Journal) -> None:
    await fill(small, 0, megabytes=6)
    await small.close()
    reading = open_reader(small.path)
    try:
        assert reading.execute("SELECT count(*), max(seq) FROM ledger").fetchall() == [(6000, 6000)]
        assert reading.pragma("integrity_check") == "ok"
    finally:
        reading.close()


async def test_a_checkpoint_that_cannot_be_written_is_fatal(small: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    error = apsw.IOError("disk I/O error")
    error.extendedresult = apsw.SQLITE_IOERR_FSYNC  # type: ignore[attr-defined]

    def fail(*_arguments: object) -> None:
        raise error

    reasons: list[str] = []
    small.on_fatal = reasons.append
    monkeypatch.setattr(small._writer, "_after_commit", fail)
    await small.append([event("a")])
    await until(lambda: reasons)
    assert "the WAL cannot be checkpointed" in reasons[0]
    with pytest.raises(StorageFailed):
        await small.append([event("b")])

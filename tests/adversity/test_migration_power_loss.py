"""A power cut while the text of an older ledger's schema is changed: it is of one version, and no row is touched."""

import random
from pathlib import Path

import apsw
import pytest

from broker.journal import connection, schema
from tests.adversity.conftest import SEED, TORTURE
from tests.adversity.oracle import scratch_directory
from tests.adversity.power_cut import images
from tests.adversity.recording_vfs import RecordingVFS

IMAGES = 20_000 if TORTURE else 250
ROWS = 300
BEFORE = 8
LIST, RANGE = "CHECK (state IN (0, 1, 2))", "CHECK (state BETWEEN 0 AND 2)"
TABLES = "SELECT sql FROM sqlite_schema WHERE name IN ('ledger', 'group_events')"


def older_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """A ledger of the version before the change, with rows in every state; what its rows are."""
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:BEFORE])
        before.setattr(schema, "VERSION", BEFORE)
        writing = connection.open_writer(path, synchronous="full")
    for seq in range(1, ROWS + 1):
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope, state) "
            "VALUES (?1, 'courier', 's', 't', 'stream:s', 'e-' || ?1, 1, 1, 1, zeroblob(32), randomblob(90), ?1 % 3)",
            (seq,),
        )
    found = rows_of(writing)
    writing.close()
    return found


def rows_of(reading: apsw.Connection) -> list[tuple[object, ...]]:
    columns = "seq, source_event_id, state, process_state, envelope"
    return reading.execute(f"SELECT {columns} FROM ledger ORDER BY seq").fetchall()


def test_a_power_cut_in_the_migration_leaves_one_version_or_the_other_with_every_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scratch_directory() as name:
        directory = Path(name)
        path = directory / "courier.db"
        rows = older_ledger(path, monkeypatch)
        with RecordingVFS() as vfs:
            connection.open_writer(path, synchronous="full", vfs=vfs.name).close()
        found = set()
        for number, image in enumerate(images(vfs.log, random.Random(SEED), IMAGES)):
            home = directory / f"image-{number % 2}"
            home.mkdir(exist_ok=True)
            for left in home.iterdir():
                left.unlink()
            cut = image.write_to(home)
            reading = apsw.Connection(str(cut))
            version = reading.pragma("user_version")
            assert reading.pragma("integrity_check") == "ok", image
            texts = [sql for (sql,) in reading.execute(TABLES)]
            assert [(LIST in sql, RANGE in sql) for sql in texts] == [(version == BEFORE, version > BEFORE)] * 2, image
            assert rows_of(reading) == rows, image
            reading.close()
            found.add(version)
            again = connection.open_writer(cut, synchronous="normal")
            assert (again.pragma("user_version"), again.pragma("writable_schema")) == (schema.VERSION, 0)
            assert again.pragma("integrity_check") == "ok", image
            assert all(RANGE in sql for (sql,) in again.execute(TABLES))
            assert rows_of(again) == rows, image
            again.close()
        assert found == {BEFORE, schema.VERSION}, "the cuts were not on both sides of the change"

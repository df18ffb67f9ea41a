"""The file: the documents' tables with their columns and words, migrations, and files that are refused."""

import hashlib
import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from broker.contracts.inbound import InboundEvent
from broker.errors import ConfigError
from broker.journal import connection, schema, statements
from broker.journal.group_queries import Registration
from broker.journal.journal import Journal
from broker.journal.statements import StateChange
from tests.journal.conftest import OpenJournal, event, rows
from tests.support.streams import acked

# Copied from the documents that ask for them.
EVENT_INBOX = ["event_id", "status", "received_at", "last_updated_at", "payload"]
RECEIPTS = ["dedupe_key", "dedupe_scope", "idempotency_key", "event_id", "event_name", "schema_version",
            "first_seen_at", "last_seen_at", "duplicate_count", "last_transport_attempt", "status"]  # fmt: skip
EVENT_JOURNAL = ["id", "topic", "source", "payload", "correlation_id", "status", "created_at", "processed_at", "error"]
DEFERRED_EVENTS = ["id", "topic", "source", "payload", "correlation_id", "fire_at", "status", "created_at", "fired_at"]
LEDGER = {"source_system", "source_event_id", "source_sequence", "source_emitted_at", "received_at", "payload_sha256",
          "ingest_first_seen_at", "ingest_last_seen_at", "ingest_attempt_count", "process_state", "process_error",
          "dedupe_key", "dedupe_scope", "event_name", "schema_version", "duplicate_count",
          "last_transport_attempt"}  # fmt: skip


@pytest.mark.parametrize(
    ("table", "columns"),
    [("event_inbox", EVENT_INBOX), ("receipts", RECEIPTS), ("event_journal", EVENT_JOURNAL),
     ("deferred_events", DEFERRED_EVENTS)],
)  # fmt: skip
async def test_a_documented_table_has_exactly_its_documented_columns(
    journal: Journal, tmp_path: Path, table: str, columns: list[str]
) -> None:
    assert [name for (name,) in rows(tmp_path, "SELECT name FROM pragma_table_xinfo(?)", table)] == columns


async def test_the_ledger_has_every_documented_field(journal: Journal, tmp_path: Path) -> None:
    found = {name for (name,) in rows(tmp_path, "SELECT name FROM pragma_table_xinfo('ledger')")}
    assert found >= LEDGER


async def test_the_status_words_of_every_view_follow_the_state(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event("waits", at=1), event("done", at=2), event("dead", at=3)])
    journal.processed(acked(2, 1))
    journal.dead_letter(3, 10, 5, "poison")
    await journal.close()
    assert rows(tmp_path, "SELECT event_id, status FROM event_inbox ORDER BY received_at") == [
        ("waits", "received"), ("done", "processed"), ("dead", "dead_letter")]  # fmt: skip
    assert rows(tmp_path, "SELECT id, status, error, processed_at IS NULL FROM event_journal ORDER BY id") == [
        (1, "pending", None, 1), (2, "done", None, 0), (3, "failed", "poison", 0)]  # fmt: skip
    assert rows(tmp_path, "SELECT DISTINCT status FROM receipts") == [("processed",)]


async def test_views_show_times_and_topics_as_the_documents_do(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event("a", stream="topics/reminder.due", at=1_771_524_842_000_001, envelope=b'{"text":"x"}')])
    assert rows(tmp_path, "SELECT received_at, payload FROM event_inbox") == [
        ("2026-02-19T18:14:02.000001Z", '{"text":"x"}')
    ]
    assert rows(tmp_path, "SELECT topic, source, created_at FROM event_journal") == [
        ("reminder.due", "stream:topics/reminder.due", 1_771_524_842.000001)
    ]


async def test_a_rejection_is_a_receipt_with_status_rejected(journal: Journal, tmp_path: Path) -> None:
    def reject(writing: apsw.Connection) -> None:
        writing.execute(
            "INSERT INTO rejections (contract, source_system, source_event_id, received_at, code, message) "
            "VALUES ('pixel', 'server-1', 'pc-idem-1', 1771524842000000, 'envelope_invalid', 'no payload')"
        )

    await journal.execute(reject)
    assert rows(tmp_path, "SELECT idempotency_key, dedupe_scope, status, first_seen_at FROM receipts") == [
        ("pc-idem-1", "server-1", "rejected", "2026-02-19T18:14:02.000000Z")
    ]


def test_the_parameters_of_the_insert_are_the_fields_of_an_inbound_event() -> None:
    columns = re.findall(r"\w+", statements.INSERT_EVENT.split("(", 1)[1].split(")")[0])
    fields = ["last_transport_attempt" if name == "transport_attempt" else name for name in InboundEvent._fields]
    assert columns[1 : 1 + len(fields)] == fields
    assert max(map(int, re.findall(r"\?(\d+)", statements.INSERT_EVENT))) == len(fields) + 1
    assert max(map(int, re.findall(r"\?(\d+)", statements.COUNT_DUPLICATE))) == len(fields) + 1


def test_the_parameters_of_a_change_are_its_fields_and_the_end_of_its_run() -> None:
    assert max(map(int, re.findall(r"\?(\d+)", statements.CHANGE_STATE))) == len(StateChange._fields) + 1
    assert StateChange._fields[statements.LATEST] == "at"


def test_a_run_of_changes_is_found_by_its_sequences_and_by_no_index(tmp_path: Path) -> None:
    writing = connection.open_writer(tmp_path / "courier.db", synchronous="full")
    plan = writing.execute(f"EXPLAIN QUERY PLAN {statements.CHANGE_STATE}", (1, 1, 1, 1, None, None, 9)).fetchall()
    assert [step[3] for step in plan] == ["SEARCH ledger USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]
    writing.close()


def test_a_state_is_checked_as_a_range_also_in_a_ledger_that_was_made_with_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "courier.db"
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:8])
        before.setattr(schema, "VERSION", 8)
        writing = connection.open_writer(path, synchronous="full")
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope) "
            "VALUES (1, 'courier', 's', 't', 'stream:s', 'e-1', 1, 1, 1, zeroblob(32), x'7b7d')"
        )
        writing.close()
    writing = connection.open_writer(path, synchronous="full")
    tables = writing.execute("SELECT sql FROM sqlite_schema WHERE name IN ('ledger', 'group_events')").fetchall()
    assert [("BETWEEN 0 AND 2" in sql, "IN (0, 1, 2)" in sql) for (sql,) in tables] == [(True, False)] * 2
    for state in (-1, 3):
        with pytest.raises(apsw.ConstraintError, match="CHECK"):
            writing.execute("UPDATE ledger SET state = ?", (state,))
    for state in (0, 2, 1):
        writing.execute("UPDATE ledger SET state = ?", (state,))
    with pytest.raises(apsw.SQLError, match="may not be modified"):
        writing.execute("UPDATE sqlite_schema SET sql = sql")
    assert writing.pragma("integrity_check") == "ok"
    assert writing.execute("SELECT source_event_id, process_state FROM ledger").fetchall() == [("e-1", "processed")]
    writing.close()


async def test_durability_settings_are_in_force(tmp_path: Path) -> None:
    for synchronous, number in (("full", 2), ("normal", 1)):
        writing = connection.open_writer(tmp_path / f"{synchronous}.db", synchronous=synchronous)
        pragmas = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        assert [writing.pragma(name) for name in pragmas] == ["wal", number, 5000, 1]
        writing.close()


def test_a_fresh_file_is_at_the_newest_version_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "courier.db"
    connection.open_writer(path, synchronous="full").close()
    assert path.stat().st_mode & 0o777 == 0o600
    reading = connection.open_reader(path)
    assert reading.pragma("user_version") == schema.VERSION
    assert reading.pragma("application_id") == schema.APPLICATION_ID
    reading.close()


def test_migrations_run_one_by_one_from_the_version_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "courier.db"
    connection.open_writer(path, synchronous="full").close()
    steps = (*schema.MIGRATIONS, "CREATE TABLE later (x)", "ALTER TABLE later ADD COLUMN y")
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    monkeypatch.setattr(schema, "VERSION", len(steps))
    writing = connection.open_writer(path, synchronous="full")
    assert writing.pragma("user_version") == schema.VERSION
    assert writing.execute("SELECT count(*) FROM pragma_table_info('later')").get == 2
    writing.close()


def test_a_ledger_of_the_first_version_keeps_its_events_and_learns_of_partition_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "courier.db"
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        before.setattr(schema, "VERSION", 1)
        writing = connection.open_writer(path, synchronous="full")
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope) "
            "VALUES (1, 'courier', 's', 't', 'stream:s', 'e-1', 1, 1, 1, zeroblob(32), x'7b7d')"
        )
        writing.close()
    writing = connection.open_writer(path, synchronous="full")
    assert writing.execute("SELECT source_event_id, partition_key FROM ledger").fetchall() == [("e-1", None)]
    writing.close()


async def test_a_ledger_of_the_second_version_learns_of_groups_which_get_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_journal: OpenJournal
) -> None:
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        before.setattr(schema, "VERSION", 2)
        writing = connection.open_writer(tmp_path / "courier.db", synchronous="full")
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope) "
            "VALUES (1, 'courier', 's', 't', 'stream:s', 'e-1', 1, 1, 1, ?, ?)",
            (hashlib.sha256(b"{}").digest(), b"{}"),
        )
        writing.close()
    journal = await open_journal()
    (ledger,) = await journal.groups.register(Registration("s", "g", 0), ["s"])
    events, last_seq = await ledger.pending_page("s", 0, 10)
    assert ([each.source_event_id for each in events], last_seq) == (["e-1"], 1)


def test_a_ledger_of_the_second_version_keeps_its_events_and_has_room_for_views(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "courier.db"
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        before.setattr(schema, "VERSION", 2)
        writing = connection.open_writer(path, synchronous="full")
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope, partition_key) "
            "VALUES (1, 'courier', 's', 't', 'stream:s', 'e-1', 1, 1, 1, zeroblob(32), x'7b7d', 'k')"
        )
        writing.close()
    writing = connection.open_writer(path, synchronous="full")
    assert writing.execute("SELECT source_event_id, partition_key FROM ledger").fetchall() == [("e-1", "k")]
    assert writing.execute("SELECT count(*) FROM view_rows").get == 0
    writing.close()


def test_a_ledger_from_before_the_contracts_keeps_its_events_and_learns_of_notes_and_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "courier.db"
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:5])
        before.setattr(schema, "VERSION", 5)
        writing = connection.open_writer(path, synchronous="full")
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope, received_sha256) "
            "VALUES (1, 'courier', 's', 't', 'stream:s', 'e-1', 1, 1, 1, zeroblob(32), x'7b7d', x'01')"
        )
        writing.close()
    writing = connection.open_writer(path, synchronous="full")
    assert writing.execute("SELECT received_sha256, notes FROM ledger").fetchall() == [(b"\x01", None)]
    assert writing.execute("SELECT count(*) FROM pixel_servers").get == 0
    assert writing.execute("SELECT count(*) FROM receipts").get == 1
    writing.close()


def test_a_ledger_from_before_the_scheduler_keeps_what_its_table_of_deferred_events_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "courier.db"
    row = (4, "reminder.due", "water", '{"text":"é"}', "c", 1_700_000_000.25, "fired", 1_600_000_000.5, 1_700_000_001.0)
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:6])
        before.setattr(schema, "VERSION", 6)
        writing = connection.open_writer(path, synchronous="full")
        writing.execute(f"INSERT INTO deferred_events VALUES ({','.join('?' * 9)})", row)
        writing.close()
    writing = connection.open_writer(path, synchronous="full")
    assert writing.execute("SELECT * FROM deferred_events").fetchall() == [row]
    writing.execute(
        "INSERT INTO deferrals (contract, stream, source, envelope, created_at, fire_at) VALUES ('bus','s','x',x'',1,1)"
    )
    assert writing.last_insert_rowid() == 5
    writing.close()


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "courier.db"
    connection.open_writer(path, synchronous="full").close()
    broken = (*schema.MIGRATIONS, "CREATE TABLE half (x); CREATE TABLE half (x)")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    monkeypatch.setattr(schema, "VERSION", len(broken))
    with pytest.raises(ConfigError, match="already exists"):
        connection.open_writer(path, synchronous="full")
    reading = connection.open_reader(path)
    assert reading.pragma("user_version") == len(broken) - 1
    assert reading.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").get == 0
    reading.close()


def _with(sql: str) -> Any:
    def make(path: Path) -> None:
        writing = apsw.Connection(str(path))
        writing.execute(sql)
        writing.close()

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            _with(f"PRAGMA application_id={schema.APPLICATION_ID}; PRAGMA user_version=999"),
            "written by a newer Courier",
        ),
        (_with("CREATE TABLE foreign_table (x)"), "belongs to another program"),
        (lambda path: path.write_bytes(b"not a database at all" * 100), "not an SQLite database"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_not_touched(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "courier.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=message):
        connection.open_writer(path, synchronous="full")
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["courier.db"]


@pytest.mark.parametrize(("version", "fits"), [("3.51.2", False), ("3.51.3", True), ("3.52.0", True), ("3.9.9", False)])
def test_an_sqlite_with_the_wal_reset_bug_is_refused(version: str, fits: bool) -> None:
    if fits:
        connection.check_sqlite_version(version)
    else:
        with pytest.raises(ConfigError, match=f"SQLite {version} has a bug"):
            connection.check_sqlite_version(version)


async def test_a_journal_whose_groups_cannot_be_read_is_refused_and_let_go(
    open_journal: OpenJournal, tmp_path: Path
) -> None:
    await (await open_journal()).close()
    file = apsw.Connection(str(tmp_path / connection.FILE_NAME))
    file.execute("ALTER TABLE group_streams RENAME TO elsewhere")
    file.close()
    for _ in range(2):  # the second finds the directory free
        with pytest.raises(ConfigError, match=r"cannot be read: .*no such table: group_streams"):
            await open_journal()

"""The commit loop: whole batches into SQLite, outcomes in order, and a rollback when SQLite refuses."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from _fast import COMMIT_EXTENSION, CommitError, Committer

INSERT = "INSERT INTO t (seq, name, body, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO NOTHING"
DUPLICATE = "UPDATE t SET seen = seen + 1 WHERE name = ?2 RETURNING seq, at, (body IS NOT ?3) + 0 * coalesce(?4, 0)"
UPDATE = "UPDATE t SET state = ?2 WHERE seq = ?1"
LINK = "INSERT INTO links (effect, cause) VALUES (?1, ?2)"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "t.db"))
    connection.execute(
        "CREATE TABLE t (seq INTEGER PRIMARY KEY, name TEXT UNIQUE, body BLOB CHECK (length(body) < 100), at INTEGER, "
        "seen INTEGER DEFAULT 1, state TEXT);"
        "CREATE TABLE links (effect INTEGER PRIMARY KEY, cause INTEGER CHECK (cause < 50))"
    )
    yield connection
    connection.close()


def attach(
    connection: apsw.Connection, insert: str = INSERT, duplicate: str = DUPLICATE, link: str = LINK
) -> Committer:
    connection.enable_load_extension(True)
    connection.load_extension(COMMIT_EXTENSION, "courier_commit_init")
    connection.enable_load_extension(False)
    return Committer(insert, duplicate, UPDATE, link)


@pytest.fixture
def committer(connection: apsw.Connection) -> Iterator[Committer]:
    committer = attach(connection)
    yield committer
    committer.close()


def table(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT seq, name, body, at, seen, state FROM t ORDER BY seq").fetchall()


def test_the_library_that_is_reached_is_the_one_of_the_connection(committer: Committer) -> None:
    assert committer.sqlite_version_number == apsw.SQLITE_VERSION_NUMBER


def test_rows_are_stored_with_the_values_they_came_with(connection: apsw.Connection, committer: Committer) -> None:
    written = committer.write([("ä\0b", b"\x00\xff", -(2**63)), ("", b"", None), ("x", None, 2**63 - 1)], [], 5, True)
    assert (written.seqs, written.duplicates, written.next_seq) == ([5, 6, 7], {}, 8)
    assert written.total_bytes == len("ä\0b".encode()) + 2 + 1
    assert table(connection) == [
        (5, "ä\0b", b"\x00\xff", -(2**63), 1, None),
        (6, "", b"", None, 1, None),
        (7, "x", None, 2**63 - 1, 1, None),
    ]


def test_a_duplicate_is_told_by_minus_its_sequence_and_takes_none(
    connection: apsw.Connection, committer: Committer
) -> None:
    written = committer.write([("a", b"1", 10), ("a", b"1", 11), ("b", b"2", 12), ("a", b"other", 13)], [], 1, True)
    assert written.seqs == [1, -1, 2, -1]
    assert written.duplicates == {1: (10, False), 3: (10, True)}
    assert written.next_seq == 3
    assert [row[4] for row in table(connection)] == [3, 1]


def test_a_row_that_breaks_a_constraint_is_refused_alone(connection: apsw.Connection, committer: Committer) -> None:
    written = committer.write([("a", b"1", 1), ("b", b"x" * 100, 2), ("c", b"3", 3)], [], 1, True)
    assert written.seqs == [1, 0, 2]
    assert [row[1] for row in table(connection)] == ["a", "c"]


def test_updates_are_applied_after_the_rows_of_the_same_batch(
    connection: apsw.Connection, committer: Committer
) -> None:
    committer.write([("a", b"1", 1)], [(1, "done"), (99, "nobody")], 1, True)
    assert table(connection)[0][5] == "done"


def test_an_uncommitted_batch_can_be_completed_or_undone(connection: apsw.Connection, committer: Committer) -> None:
    committer.write([("a", b"1", 1)], [], 1, False)
    assert connection.in_transaction
    committer.commit()
    assert not connection.in_transaction
    committer.write([("b", b"1", 1)], [], 2, False)
    committer.rollback()
    assert not connection.in_transaction
    assert [row[1] for row in table(connection)] == ["a"]


def test_a_rollback_without_a_transaction_does_nothing(committer: Committer) -> None:
    committer.rollback()


@pytest.mark.parametrize(
    "bad", [("a", b"1"), ("a", b"1", 1.5), ["a", b"1", 1], ("a", bytearray(b"1"), 1), ("a", True, 1)]
)
def test_a_value_that_cannot_be_bound_begins_nothing(
    connection: apsw.Connection, committer: Committer, bad: object
) -> None:
    with pytest.raises(TypeError):
        committer.write([("good", b"1", 1), bad], [], 1, True)  # type: ignore[list-item]
    assert not connection.in_transaction
    assert table(connection) == []


def test_an_integer_past_64_bits_begins_nothing(connection: apsw.Connection, committer: Committer) -> None:
    with pytest.raises(OverflowError):
        committer.write([("a", b"1", 2**63)], [], 1, True)
    assert not connection.in_transaction


def test_a_lone_surrogate_begins_nothing(connection: apsw.Connection, committer: Committer) -> None:
    with pytest.raises(UnicodeEncodeError):
        committer.write([("\ud800", b"1", 1)], [], 1, True)
    assert not connection.in_transaction


def test_what_sqlite_refuses_is_raised_with_its_code_and_rolled_back(
    connection: apsw.Connection, committer: Committer, tmp_path: Path
) -> None:
    other = apsw.Connection(str(tmp_path / "t.db"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CommitError, match="database is locked") as caught:
        committer.write([("a", b"1", 1)], [], 1, True)
    assert caught.value.code & 0xFF == apsw.SQLITE_BUSY
    assert not connection.in_transaction
    other.execute("ROLLBACK")
    other.close()
    assert committer.write([("a", b"1", 1)], [], 1, True).seqs == [1]


def test_a_batch_is_there_wholly_or_not_at_all(connection: apsw.Connection, committer: Committer) -> None:
    connection.execute("CREATE TRIGGER no BEFORE UPDATE OF state ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
    with pytest.raises(CommitError, match="no"):
        committer.write([("a", b"1", 1)], [(1, "done")], 1, True)
    assert table(connection) == []
    assert not connection.in_transaction


@pytest.mark.parametrize("sql", ["INSERT INTO nowhere VALUES (?1)", "SELEC"])
def test_sql_that_does_not_prepare_is_refused_and_leaves_the_connection_usable(
    connection: apsw.Connection, sql: str
) -> None:
    with pytest.raises(CommitError):
        attach(connection, insert=sql)
    assert table(connection) == []


def test_the_duplicate_statement_must_take_the_parameters_of_the_insert(connection: apsw.Connection) -> None:
    with pytest.raises(ValueError, match="as many parameters"):
        attach(connection, duplicate="UPDATE t SET seen = 2 WHERE name = ?2 RETURNING 1, 2, 3")


def links(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT effect, cause FROM links ORDER BY effect").fetchall()


def test_an_effect_is_stored_and_linked_only_if_its_cause_is_new(
    connection: apsw.Connection, committer: Committer
) -> None:
    committer.write([("old", b"1", 1)], [], 1, True)
    rows = [
        ("old", b"1", 2),
        ("new", b"1", 2),
        ("too long", b"x" * 100, 2),
        ("of old", b"1", 2),
        ("of new", b"1", 2),
        ("of too long", b"1", 2),
        ("of of old", b"1", 2),
        ("of of new", b"1", 2),
        ("of nothing", b"1", 2),
    ]
    written = committer.write(rows, [], 2, True, [-1, -1, -1, 0, 1, 2, 3, 4, -1])
    assert written.seqs == [-1, 2, 0, 0, 3, 0, 0, 4, 5]
    assert written.duplicates == {0: (1, False)}
    assert written.next_seq == 6
    assert [row[1] for row in table(connection)] == ["old", "new", "of new", "of of new", "of nothing"]
    assert links(connection) == [(3, 2), (4, 3)]


def test_an_effect_that_is_there_already_is_a_duplicate_and_not_linked_again(
    connection: apsw.Connection, committer: Committer
) -> None:
    committer.write([("a", b"1", 1), ("effect", b"1", 1)], [], 1, True, [-1, 0])
    written = committer.write([("b", b"1", 2), ("effect", b"2", 2), ("of effect", b"1", 2)], [], 3, True, [-1, 0, 1])
    assert written.seqs == [3, -2, 0]
    assert links(connection) == [(2, 1)]


@pytest.mark.parametrize("causes", [[0], [-2], [1], [-1, -1], []])
def test_a_cause_that_is_not_an_earlier_row_begins_nothing(
    connection: apsw.Connection, committer: Committer, causes: list[int]
) -> None:
    with pytest.raises(ValueError, match="cause"):
        committer.write([("a", b"1", 1)], [], 1, True, causes)
    assert not connection.in_transaction
    assert table(connection) == []


def test_a_link_that_sqlite_refuses_undoes_cause_and_effect(connection: apsw.Connection, committer: Committer) -> None:
    with pytest.raises(CommitError, match="CHECK"):
        committer.write([("a", b"1", 1), ("b", b"1", 1)], [], 50, True, [-1, 0])
    assert (table(connection), links(connection)) == ([], [])
    assert not connection.in_transaction
    assert committer.write([("a", b"1", 1), ("b", b"1", 1)], [], 1, True, [-1, 0]).seqs == [1, 2]


def test_the_link_statement_must_take_two_sequences(connection: apsw.Connection) -> None:
    with pytest.raises(ValueError, match="two parameters"):
        attach(connection, link="INSERT INTO links (effect) VALUES (?1)")


def test_a_committer_needs_an_extension_that_was_just_loaded() -> None:
    with pytest.raises(RuntimeError, match="load the extension"):
        Committer(INSERT, DUPLICATE, UPDATE, LINK)


def test_closing_twice_is_harmless_and_using_it_afterwards_is_not(connection: apsw.Connection) -> None:
    committer = attach(connection)
    committer.close()
    committer.close()
    for use in (lambda: committer.write([], [], 1, True), committer.commit, committer.rollback):
        with pytest.raises(RuntimeError, match="closed"):
            use()


def test_the_values_of_a_batch_are_let_go_afterwards(committer: Committer) -> None:
    body = b"held" * 10
    before = sys.getrefcount(body)
    rows = [("a", body, 1), ("a", body, 1)]
    committer.write(rows, [], 1, True)
    del rows
    assert sys.getrefcount(body) == before


def test_another_thread_runs_while_a_batch_is_written(connection: apsw.Connection, committer: Committer) -> None:
    """The GIL is released once around the batch, so a busy thread goes on all the while."""
    rows = [(f"n{n}", b"x" * 90, n) for n in range(20_000)]
    turns, stop = 0, False

    def turn() -> None:
        nonlocal turns
        while not stop:
            turns += 1

    thread = threading.Thread(target=turn)
    thread.start()
    before = turns
    committer.write(rows, [], 1, True)
    during = turns - before
    stop = True
    thread.join()
    assert during > 1_000

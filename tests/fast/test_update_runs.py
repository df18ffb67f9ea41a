"""Updates in runs: those whose keys follow each other are one statement, and nobody can tell but by the latest time."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _fast import COMMIT_EXTENSION, Committer

ROWS = 30
INSERT = "INSERT INTO t (seq, name) VALUES (?1, ?2)"
DUPLICATE = "UPDATE t SET name = name WHERE name = ?2 AND ?1 RETURNING 1, 2, 3"
UPDATE = "UPDATE t SET state = ?2, at = ?3, error = ?4 WHERE seq BETWEEN ?1 AND ?5 AND state = 0"
LINK = "INSERT INTO t (seq, name) VALUES (?1, ?2)"
AT = 2

Update = tuple[int, int, int, str | None]


def open_table(path: str) -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE t (seq INTEGER PRIMARY KEY, name TEXT UNIQUE, state INT DEFAULT 0, at INT, error)")
    for seq in range(1, ROWS + 1):
        connection.execute("INSERT INTO t (seq) VALUES (?)", (seq,))
    return connection


def attach(connection: apsw.Connection, update: str = UPDATE, latest: int | None = AT) -> Committer:
    connection.enable_load_extension(True)
    connection.load_extension(COMMIT_EXTENSION, "courier_commit_init")
    return Committer(INSERT, DUPLICATE, update, LINK, None, latest)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_table(str(tmp_path / "t.db"))
    yield connection
    connection.close()


@pytest.fixture
def committer(connection: apsw.Connection) -> Iterator[Committer]:
    committer = attach(connection)
    yield committer
    committer.close()


def table(connection: apsw.Connection) -> list[tuple[int, int, int | None, str | None]]:
    return connection.execute("SELECT seq, state, at, error FROM t WHERE seq <= 30 ORDER BY seq").fetchall()


def one_by_one(updates: list[Update]) -> dict[int, Update]:
    """The update that decides about each row: the last one of its key that still found state 0."""
    changed: dict[int, Update] = {}
    for update in updates:
        if changed.get(update[0], (0, 0, 0, None))[1] == 0:
            changed[update[0]] = update
    return changed


def updates() -> st.SearchStrategy[list[Update]]:
    errors = st.sampled_from([None, None, None, "poison"])
    return st.lists(st.tuples(st.integers(1, ROWS), st.sampled_from([0, 1, 1, 1, 2]), st.integers(1, 9), errors))


@given(given_updates=updates())
def test_runs_leave_what_updates_one_by_one_leave_but_for_the_latest_time(given_updates: list[Update]) -> None:
    connection = open_table(":memory:")
    committer = attach(connection)
    committer.write([], given_updates, 1, True)
    expected = one_by_one(given_updates)
    for seq, state, at, error in table(connection):
        if seq not in expected:
            assert (state, at, error) == (0, None, None)
            continue
        assert (state, error) == (expected[seq][1], expected[seq][3])
        assert at is not None
        assert expected[seq][AT] <= at <= max(update[AT] for update in given_updates)
    committer.close()
    connection.close()


def statements_run(connection: apsw.Connection, committer: Committer, given_updates: list[Update]) -> int:
    """How many times the statement of the updates runs."""
    seen: list[str] = []
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
    committer.write([], given_updates, 1, True)
    connection.trace_v2(0, None)
    return seen.count(UPDATE)


def test_keys_that_follow_each_other_are_one_statement_in_whatever_order_they_come(
    connection: apsw.Connection, committer: Committer
) -> None:
    mixed = [(seq, 1, 100 + seq, None) for seq in (2, 4, 6, 1, 3, 5)]
    assert statements_run(connection, committer, mixed) == 1
    assert table(connection)[:7] == [*((seq, 1, 106, None) for seq in range(1, 7)), (7, 0, None, None)]


@pytest.mark.parametrize(
    ("given_updates", "statements"),
    [
        ([(1, 1, 5, None), (3, 1, 5, None)], 2),  # a gap
        ([(1, 1, 5, None), (2, 2, 5, None)], 2),  # another state
        ([(1, 1, 5, None), (2, 1, 5, "poison")], 2),  # another error
        ([(1, 0, 5, None), (1, 1, 6, None), (2, 1, 6, None)], 2),  # the same key twice: in their order
        ([(2**63 - 1, 1, 5, None), (-(2**63), 1, 5, None)], 2),  # the ends of what a key can be do not meet
        ([], 0),
    ],
)
def test_what_is_not_one_run_is_several_statements(
    connection: apsw.Connection, committer: Committer, given_updates: list[Update], statements: int
) -> None:
    assert statements_run(connection, committer, given_updates) == statements


def test_a_key_that_is_no_integer_begins_nothing(connection: apsw.Connection, committer: Committer) -> None:
    with pytest.raises(TypeError, match="first value of row 1"):
        committer.write([], [(1, 1, 1, None), ("2", 1, 1, None)], 1, True)
    assert not connection.in_transaction
    assert table(connection)[0] == (1, 0, None, None)


def test_a_time_that_is_no_integer_goes_by_itself(connection: apsw.Connection, committer: Committer) -> None:
    assert statements_run(connection, committer, [(1, 1, 5, None), (2, 1, None, None), (3, 1, 4, None)]) == 3  # type: ignore[list-item]
    assert [row[2] for row in table(connection)[:3]] == [5, None, 4]


@pytest.mark.parametrize("latest", [0, 4, -2])
def test_the_latest_must_be_a_value_behind_the_key(connection: apsw.Connection, latest: int) -> None:
    with pytest.raises(ValueError, match="latest names the column"):
        attach(connection, latest=latest)

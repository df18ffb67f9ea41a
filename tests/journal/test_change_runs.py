"""Changes of state in runs, on the journal's own table: every column is what changes one by one make of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _fast import COMMIT_EXTENSION, Committer
from broker.journal import connection, statements
from broker.journal.statements import Change

ROWS = 25
ONE_BY_ONE = statements.CHANGE_STATE.replace("BETWEEN ?1 AND ?7", "= ?1")
COLUMNS = "seq, state, process_attempts, process_first_attempt_at, process_error, process_state, envelope, stream"


@dataclass
class Ledger:
    """A ledger with rows, and what writes to it; what is written is rolled back after a look."""

    writing: apsw.Connection
    committer: Committer

    def after(self, changes: list[Change]) -> tuple[list[tuple[object, ...]], dict[int, int]]:
        """Every row when these are written, and when each was changed."""
        self.committer.write([], changes, 1, False)
        rows = self.writing.execute(f"SELECT {COLUMNS} FROM ledger ORDER BY seq").fetchall()
        times = dict(self.writing.execute("SELECT seq, state_changed_at FROM ledger").fetchall())
        self.committer.rollback()
        return rows, times


def opened(path: Path, update: str, latest: int | None) -> Ledger:
    writing = connection.open_writer(path, synchronous="normal")
    for seq in range(1, ROWS + 1):
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope, state) "
            "VALUES (?1, 'courier', 's' || ?1 % 3, 't', 'x', 'e-' || ?1, 1, 1, 1, zeroblob(32), x'7b7d', ?1 = 7)",
            (seq,),
        )
    writing.enable_load_extension(True)
    writing.load_extension(COMMIT_EXTENSION, "courier_commit_init")
    committer = Committer(
        statements.INSERT_EVENT, statements.COUNT_DUPLICATE, update, statements.LINK_CAUSE, statements.HASHED, latest
    )
    return Ledger(writing, committer)


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ledger, Ledger]]:
    """One that is written in runs, and one that is written one by one."""
    directory = tmp_path_factory.mktemp("runs")
    both = (
        opened(directory / "runs.db", statements.CHANGE_STATE, statements.LATEST),
        opened(directory / "single.db", ONE_BY_ONE, None),
    )
    yield both
    for each in both:
        each.committer.close()
        each.writing.close()


def changes() -> st.SearchStrategy[list[Change]]:
    """Changes as the streams make them, and others: several of one key, of no row, with numbers below zero."""
    errors = st.sampled_from([None, None, None, "poison", "p" * 9]) | st.text(max_size=3)
    one = st.tuples(
        st.integers(0, ROWS + 2) | st.sampled_from([-1, 2**63 - 1, -(2**63)]),
        st.sampled_from([1, 1, 1, 1, 2, 0]),
        st.integers(1, 9),
        st.sampled_from([1, 1, 1, 2, -1, 0, -(2**63), 2**63 - 1]),
        st.none() | st.integers(1, 3),
        errors,
    )
    acknowledged = st.builds(
        lambda first, count, at: [(seq, 1, at, 1, None, None) for seq in range(first, first + count)],
        st.integers(1, ROWS),
        st.integers(1, 9),
        st.integers(1, 9),
    )
    runs = st.lists(acknowledged | one.map(lambda change: [change]), max_size=12)
    return runs.map(lambda some: list(chain.from_iterable(some))).flatmap(st.permutations)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(given_changes=changes())
def test_every_row_is_what_changes_one_by_one_make_of_it_but_for_its_time(
    ledgers: tuple[Ledger, Ledger], given_changes: list[Change]
) -> None:
    in_runs, single = ledgers
    rows, times = in_runs.after(given_changes)
    expected_rows, expected_times = single.after(given_changes)
    assert rows == expected_rows
    latest = max((change[statements.LATEST] for change in given_changes), default=1)
    assert all(expected_times[seq] <= at <= max(latest, expected_times[seq]) for seq, at in times.items())


@settings(max_examples=300, deadline=None, derandomize=True)
@given(given_changes=changes(), at=st.integers(1, 9))
def test_changes_of_one_moment_have_its_time_too(
    ledgers: tuple[Ledger, Ledger], given_changes: list[Change], at: int
) -> None:
    at_once = [(seq, state, at, *rest) for seq, state, _, *rest in given_changes]
    assert ledgers[0].after(at_once) == ledgers[1].after(at_once)  # type: ignore[arg-type]

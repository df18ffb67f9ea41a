"""An event that comes without its hash gets it in the commit loop, by either way; one that has it keeps it."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _fast import COMMIT_EXTENSION, Committer

INSERT = "INSERT INTO t (seq, body, hash) VALUES (?1, ?2, ?3)"
DUPLICATE = "UPDATE t SET body = ?2 WHERE seq = ?1 AND hash = ?3 RETURNING 1, 1, 1"
LINK = "UPDATE t SET seq = ?1 WHERE seq = ?2"


def attach(connection: apsw.Connection, hashed: tuple[int, int] | None, *, in_lanes: bool = False) -> Committer:
    connection.enable_load_extension(True)
    connection.load_extension(COMMIT_EXTENSION, "courier_commit_init")
    return Committer(INSERT, DUPLICATE, "UPDATE t SET hash = ?2 WHERE seq = ?1", LINK, hashed, None, in_lanes)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path_factory.mktemp("hashed") / Path("t.db")))
    connection.execute("CREATE TABLE t (seq INTEGER PRIMARY KEY, body, hash)")
    yield connection
    connection.close()


@pytest.fixture(scope="module", params=[False, True], ids=["as the processor can", "in lanes"])
def committer(connection: apsw.Connection, request: pytest.FixtureRequest) -> Iterator[Committer]:
    committer = attach(connection, (0, 1), in_lanes=request.param)
    yield committer
    committer.close()


def stored(
    connection: apsw.Connection, committer: Committer, rows: list[tuple[bytes | str | None, bytes | None]]
) -> list[object]:
    connection.execute("DELETE FROM t")
    committer.write(rows, [], 1, True)
    return [digest for (digest,) in connection.execute("SELECT hash FROM t ORDER BY seq")]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9])
def test_each_envelope_has_its_own_hash_however_many_there_are(
    connection: apsw.Connection, committer: Committer, count: int
) -> None:
    bodies = [b"x" * (100 * number) for number in range(count)]
    found = stored(connection, committer, [(body, None) for body in bodies])
    assert found == [hashlib.sha256(body).digest() for body in bodies]


def test_every_length_around_the_ends_of_blocks_is_hashed_right(
    connection: apsw.Connection, committer: Committer
) -> None:
    bodies = [bytes(range(256))[:size] for size in range(200)] + [b"\xff" * 1_000_003]
    found = stored(connection, committer, [(body, None) for body in bodies])
    assert found == [hashlib.sha256(body).digest() for body in bodies]


@given(bodies=st.lists(st.binary(max_size=300), max_size=9))
def test_any_bytes_are_hashed_right(connection: apsw.Connection, committer: Committer, bodies: list[bytes]) -> None:
    found = stored(connection, committer, [(body, None) for body in bodies])
    assert found == [hashlib.sha256(body).digest() for body in bodies]


def test_a_hash_that_came_is_kept_and_what_has_no_text_has_no_hash(
    connection: apsw.Connection, committer: Committer
) -> None:
    found = stored(connection, committer, [(b"a", b"given"), (None, None), (b"b", None), ("text", None)])
    assert found == [b"given", None, hashlib.sha256(b"b").digest(), hashlib.sha256(b"text").digest()]


def test_nothing_is_hashed_where_nothing_was_asked_for(connection: apsw.Connection) -> None:
    plain = attach(connection, None)
    try:
        assert stored(connection, plain, [(b"a", None)]) == [None]
    finally:
        plain.close()


@pytest.mark.parametrize("hashed", [(0, 2), (2, 0), (-1, 0), (0, -1)])
def test_what_is_hashed_must_be_among_the_values(connection: apsw.Connection, hashed: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="hashed names the columns"):
        attach(connection, hashed)

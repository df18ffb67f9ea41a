"""A copy of the journal while it is in use, and the proof that a copy (or the original) is whole."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from broker.errors import ConfigError, NotFound
from broker.journal import connection as connections

PAGES_A_STEP = 1_000

Report = Callable[[int, int], None]
"""Called with how much is done and how much there is."""


def back_up(source: Path, destination: Path, report: Report = lambda _done, _total: None) -> None:
    """Copy the journal `source`, in use or not, to the new file `destination`.

    The copy is of one moment: a read transaction holds that moment while producers go on. It appears
    under its name only when it is complete and on disk. Raise NotFound without a source, and ConfigError
    for a destination that exists already.
    """
    if not source.exists():
        raise NotFound(f"{source}: there is no journal here; --data names the data directory")
    if destination.exists():
        raise ConfigError([f"{destination}: exists already; a backup never overwrites a file"])
    partial = destination.with_name(destination.name + ".partial")
    partial.unlink(missing_ok=True)
    reading = connections.open_reader(source)
    try:
        reading.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        writing = apsw.Connection(str(partial))
        try:
            with writing.backup("main", reading, "main") as backup:
                while not backup.done:
                    backup.step(PAGES_A_STEP)
                    report(backup.page_count - backup.remaining, backup.page_count)
        finally:
            writing.close()
    finally:
        reading.close()
    _sync(partial)
    partial.rename(destination)
    _sync(destination.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Verdict(NamedTuple):
    """What a verification found; no problems means that the file is whole."""

    events: int
    emptied: int
    last_seq: int
    problems: list[str]


PROBLEMS_MAX = 100
"""After so many, a file is known to be broken well enough."""


def verify(path: Path, report: Report = lambda _done, _total: None) -> Verdict:
    """Check a journal: SQLite's own structure, every hash, every sequence. Reads only.

    Raise NotFound when there is no such file, ConfigError when it is not a journal.
    """
    if not path.exists():
        raise NotFound(f"{path}: there is no such file")
    reading = connections.open_reader(path)
    try:
        reading.execute("BEGIN")
        if connections.check_schema_version(reading) == 0:
            raise ConfigError([f"{path}: this is an empty database, not a journal"])
        last_seq: int = reading.execute("SELECT coalesce(max(seq), 0) FROM ledger").get
        problems = [f"structure: {line}" for (line,) in reading.execute("PRAGMA integrity_check(100)") if line != "ok"]
        problems += [f"reference: {row}" for row in reading.execute("PRAGMA foreign_key_check")]
        events, emptied = _check_rows(reading, last_seq, problems, report)
    except apsw.NotADBError:
        raise ConfigError([f"{path}: not an SQLite database"]) from None
    except apsw.CorruptError as error:
        return Verdict(0, 0, 0, [f"structure: {error}"])
    finally:
        reading.close()
    return Verdict(events, emptied, last_seq, problems)


def _check_rows(reading: apsw.Connection, last_seq: int, problems: list[str], report: Report) -> tuple[int, int]:
    events, emptied, expected = 0, 0, 1
    for seq, envelope, payload_sha256 in _rows(reading):
        if seq != expected:
            problems.append(f"sequence: {expected} to {seq - 1} missing")
        if envelope is None:
            emptied += 1
        elif hashlib.sha256(envelope).digest() != payload_sha256:
            problems.append(f"hash: event {seq} no longer matches its hash")
        events, expected = events + 1, seq + 1
        if len(problems) >= PROBLEMS_MAX:
            problems.append("and perhaps more: the check ended here")
            break
        if events % PAGES_A_STEP == 0:
            report(seq, last_seq)
    report(last_seq, last_seq)
    return events, emptied


def _rows(reading: apsw.Connection) -> Iterator[tuple[int, bytes | None, bytes]]:
    return iter(reading.execute("SELECT seq, envelope, payload_sha256 FROM ledger NOT INDEXED ORDER BY seq"))

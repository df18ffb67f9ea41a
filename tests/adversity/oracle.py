"""What every client was told, held against what the ledger has after a crash.

A client is told one of three things about an event that it sent:

    ok         2xx with a sequence: the event is on disk, and stays there
    in doubt   5xx, a time-out or a cut line: it may be there or not, once; sending it again settles that
    refused    4xx: it is not there

    oracle.sending(identity, envelope)              before the first byte leaves
    oracle.told(...) / in_doubt(...) / refused(...) when the answer is there, or none will come
    oracle.check(directory / "courier.db")          after the crash
"""

import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import apsw

Identity = tuple[str, str]
"""`source_system` and `source_event_id`."""

EXAMPLES_MAX = 5

_ROWS = """
SELECT source_system, source_event_id, seq, envelope, payload_sha256, state, ingest_attempt_count,
  payload_conflict_count
FROM ledger ORDER BY seq
"""


class Row(NamedTuple):
    """What the ledger has of one event."""

    identity: Identity
    seq: int
    envelope: bytes
    payload_sha256: bytes
    state: int
    ingest_attempts: int
    payload_conflicts: int


class Told(NamedTuple):
    """An acknowledgement."""

    identity: Identity
    envelope: bytes
    seq: int
    duplicate: bool
    payload_conflict: bool


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory in memory if there is one: what is examined there need not survive anything."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="courier-", dir=memory if memory.is_dir() else None)


def read_ledger(path: Path, *, live: bool = False) -> list[Row]:
    """Every row, after the recovery that a restart would do; raise apsw.CorruptError for a file that is not sound.

    `live` leaves the file alone, because a broker is using it.
    """
    flags = apsw.SQLITE_OPEN_READONLY if live else apsw.SQLITE_OPEN_READWRITE
    with closing(apsw.Connection(str(path), flags=flags)) as connection:
        connection.set_busy_timeout(5000)
        if not live:
            connection.pragma("synchronous", "off")
        if (verdict := connection.pragma("integrity_check")) != "ok":
            raise apsw.CorruptError(str(verdict))
        if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'").get:
            return []
        return [Row((system, id_), *rest) for system, id_, *rest in connection.execute(_ROWS)]


def read_copy(path: Path) -> list[Row]:
    """The rows of a database whose broker is dead, read from a copy: the next start is to find it as it was left."""
    with scratch_directory() as directory:
        for suffix in ("", "-wal", "-journal"):
            if (source := Path(f"{path}{suffix}")).exists():
                shutil.copyfile(source, Path(directory) / f"copy.db{suffix}")
        return read_ledger(Path(directory) / "copy.db") if path.exists() else []


@dataclass
class Oracle:
    """Remembers what was sent and what was answered. `seed` is printed with every failure."""

    seed: int
    acknowledged: list[Told] = field(default_factory=list, repr=False)
    doubts: dict[tuple[Identity, bytes], str] = field(default_factory=dict, repr=False)
    """Sendings whose outcome nobody knows, with the reason; an acknowledgement of the same bytes settles one."""
    doubted: int = 0
    """How many answers left the client in doubt, settled or not."""
    checks: int = 0
    _sent: Counter[tuple[Identity, bytes]] = field(default_factory=Counter, repr=False)
    _sent_identities: Counter[Identity] = field(default_factory=Counter, repr=False)
    _refused: Counter[tuple[Identity, bytes]] = field(default_factory=Counter, repr=False)

    def sending(self, identity: Identity, envelope: bytes) -> None:
        """An event is about to be sent, perhaps again."""
        self._sent[identity, envelope] += 1
        self._sent_identities[identity] += 1

    def told(
        self, identity: Identity, envelope: bytes, seq: int, *, duplicate: bool, payload_conflict: bool = False
    ) -> Told:
        """The client got a 2xx."""
        told = Told(identity, envelope, seq, duplicate, payload_conflict)
        self.acknowledged.append(told)
        self.doubts.pop((identity, envelope), None)
        return told

    def in_doubt(self, identity: Identity, envelope: bytes, why: str) -> None:
        """The client got a 5xx, or nothing."""
        self.doubted += 1
        self.doubts[identity, envelope] = why

    def refused(self, identity: Identity, envelope: bytes) -> None:
        """The client got a 4xx."""
        self._refused[identity, envelope] += 1

    @property
    def sent(self) -> int:
        """How many sendings there were."""
        return self._sent.total()

    @property
    def refusals(self) -> int:
        """How many of them were answered with 4xx."""
        return self._refused.total()

    def check(self, path: Path, *, live: bool = False) -> list[Row]:
        """Raise AssertionError unless the database keeps every promise; its rows.

        A dead broker's file is read from a copy, a `live` one's where it is.
        """
        try:
            rows = read_ledger(path, live=True) if live else read_copy(path)
        except apsw.Error as error:
            raise AssertionError(f"seed {self.seed}: {path} is not sound: {error!r}") from error
        problems = self.problems(rows)
        assert not problems, self.report(problems)
        self.checks += 1
        return rows

    def report(self, problems: list[str]) -> str:
        """A failure as text."""
        examples = "\n".join(problems[:EXAMPLES_MAX])
        return f"seed {self.seed}: {len(problems)} promises broken, after {self.sent} sendings:\n{examples}"

    def problems(self, rows: list[Row], acknowledged: Iterable[Told] | None = None) -> list[str]:
        """Every promise that these rows break. `acknowledged`: only what had been told up to some moment."""
        found = {row.identity: row for row in rows}
        problems = self._of_rows(rows, found)
        answers: Counter[Identity] = Counter()
        originals: Counter[Identity] = Counter()
        for told in self.acknowledged if acknowledged is None else acknowledged:
            answers[told.identity] += 1
            originals[told.identity] += not told.duplicate
            row = found.get(told.identity)
            if row is None:
                problems.append(f"{told.identity}: lost; acknowledged with seq {told.seq}")
            else:
                problems += _of_an_answer(told, row)
        problems += [f"{identity}: new {times} times" for identity, times in originals.items() if times > 1]
        for row in rows:
            sent = self._sent_identities[row.identity]
            if not answers[row.identity] <= row.ingest_attempts <= sent:
                problems.append(
                    f"{row.identity}: seen {row.ingest_attempts} times, but sent {sent} times and acknowledged "
                    f"{answers[row.identity]} times"
                )
        return problems

    def _of_rows(self, rows: list[Row], found: dict[Identity, Row]) -> list[str]:
        problems = []
        if len(found) != len(rows):
            problems.append(f"{len(rows) - len(found)} identities are there more than once")
        if len({row.seq for row in rows}) != len(rows):
            problems.append("a sequence is there more than once")
        for row in rows:
            sent = self._sent[row.identity, row.envelope]
            if not sent:
                problems.append(f"{row.identity}: invented; these bytes were never sent: {row.envelope[:200]!r}")
            elif sent == self._refused[row.identity, row.envelope]:
                problems.append(f"{row.identity}: stored, although it was refused")
            if hashlib.sha256(row.envelope).digest() != row.payload_sha256:
                problems.append(f"{row.identity}: its hash does not match its bytes")
        return problems


def _of_an_answer(told: Told, row: Row) -> list[str]:
    problems = []
    if told.seq != row.seq:
        problems.append(f"{told.identity}: seq {told.seq} was told, {row.seq} is stored ({told.duplicate=})")
    if told.payload_conflict:
        if not told.duplicate or told.envelope == row.envelope or not row.payload_conflicts:
            problems.append(f"{told.identity}: a conflict was told, but there is none")
    elif told.envelope != row.envelope:
        problems.append(f"{told.identity}: other bytes are stored than were acknowledged ({told.duplicate=})")
    return problems

"""The power-cut harness itself: what it must find, what it must not, and what its images may contain."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from tests.adversity.power_cut import Disk, Image, Kind, Phase, choose_cuts, classify_cut, image_at, images
from tests.adversity.recording_vfs import (
    DATABASE,
    WAL,
    Adopt,
    Create,
    Delete,
    DirectorySync,
    Entry,
    Mark,
    RecordingVFS,
    Sync,
    Truncate,
    Write,
)

SEED = int(os.environ.get("POWER_CUT_SEED", "20250711"))  # printed with every failure
TRANSACTIONS = 160
Rows = dict[int, bytes]


class Ledger:
    """A small workload in which every page moves: inserts, an index, a row rewritten each time, deletes that shrink."""

    def __init__(self, synchronous: str) -> None:
        self.synchronous = synchronous
        self.history: list[Rows] = [{}]  # what the table holds after transaction n

    def connect(self, path: Path, vfs: str | None) -> apsw.Connection:
        connection = apsw.Connection(str(path), vfs=vfs)
        connection.pragma("auto_vacuum", 1)
        assert connection.pragma("journal_mode", "wal") == "wal"
        connection.pragma("synchronous", self.synchronous)
        connection.pragma("wal_autocheckpoint", 20)
        connection.pragma("journal_size_limit", 40_000)
        return connection

    def create(self, connection: apsw.Connection) -> None:
        with connection:
            connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, body BLOB)")
            connection.execute("CREATE INDEX item_by_body ON item (substr(body, 1, 16))")
            connection.execute("CREATE TABLE progress (number INTEGER)")
            connection.execute("INSERT INTO progress VALUES (0)")

    def commit_one(self, connection: apsw.Connection) -> int:
        number = len(self.history)
        rng = random.Random(number)
        added = {number * 10 + n: rng.randbytes(rng.randint(20, 3000)) for n in range(rng.randint(1, 6))}
        retired = range(number * 10 - 400, number * 10 - 300) if number % 10 == 0 else range(0)
        self.history.append({k: v for k, v in (self.history[-1] | added).items() if k not in retired})
        with connection:
            connection.executemany("INSERT INTO item VALUES (?, ?)", added.items())
            connection.executemany("DELETE FROM item WHERE id = ?", ((id_,) for id_ in retired))
            connection.execute("UPDATE progress SET number = ?", (number,))
        return number

    def record(self, directory: Path, transactions: int = TRANSACTIONS) -> list[Entry]:
        """Run it, closing (which deletes the WAL) and opening again half-way; return the log with a mark per commit."""
        with RecordingVFS() as vfs:
            for part in range(2):
                connection = self.connect(directory / "recorded.db", vfs.name)
                if part == 0:
                    self.create(connection)
                for _ in range(transactions // 2):
                    vfs.mark(self.commit_one(connection))
                connection.close()
        return vfs.log


@dataclass
class Findings:
    """What a look into many images found."""

    images: int = 0
    lost: list[str] = field(default_factory=list)
    lost_rows: int = 0
    corrupt: list[str] = field(default_factory=list)
    phases: Counter[Phase] = field(default_factory=Counter)
    kinds: Counter[Kind] = field(default_factory=Counter)

    def __str__(self) -> str:
        examples = "\n".join(self.lost[:3] + self.corrupt[:3])
        return (
            f"seed {SEED}, {self.images} images: {len(self.lost)} lost {self.lost_rows} acknowledged rows, "
            f"{len(self.corrupt)} were corrupt\n{examples}"
        )


def read(path: Path) -> tuple[int, Rows]:
    """The transaction number and the rows of a database after recovery; raises if it is not sound."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.pragma("synchronous", "off")  # the copy under examination need not survive anything
        if (verdict := connection.pragma("integrity_check")) != "ok":
            raise apsw.CorruptError(str(verdict))
        if connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'progress'").get == 0:
            return 0, {}
        number = connection.execute("SELECT number FROM progress").get
        return number, dict(connection.execute("SELECT id, body FROM item"))


def examine(image: Image, directory: Path, history: Sequence[Rows], findings: Findings) -> None:
    findings.images += 1
    findings.phases.update(image.phases)
    findings.kinds[image.kind] += 1
    acknowledged = max(image.acknowledged, default=0)
    try:
        number, rows = read(image.write_to(directory))
    except apsw.Error as error:
        findings.corrupt.append(f"{image}: {error!r}")
        return
    if rows != history[number]:
        findings.corrupt.append(f"{image}: transaction {number} is there in part")
    if number < acknowledged:
        findings.lost.append(f"{image}: {acknowledged} was acknowledged, {number} is the last there")
        findings.lost_rows += len(history[acknowledged].keys() - rows.keys())


def examine_all(log: Sequence[Entry], directory: Path, history: Sequence[Rows], count: int) -> Findings:
    findings = Findings()
    for image in images(log, random.Random(SEED), count):
        examine(image, directory, history, findings)
    print(findings)
    return findings


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ledger, list[Entry]]:
    ledger = Ledger("FULL")
    return ledger, ledger.record(tmp_path_factory.mktemp("full"))


def test_at_synchronous_full_no_power_cut_takes_an_acknowledged_row_or_half_a_transaction(
    full: tuple[Ledger, list[Entry]], tmp_path: Path
) -> None:
    ledger, log = full
    findings = examine_all(log, tmp_path, ledger.history, 5000)
    assert not findings.lost, str(findings)
    assert not findings.corrupt, str(findings)
    assert findings.images == 5000
    assert all(findings.kinds[kind] >= 300 for kind in Kind), findings.kinds
    assert all(findings.phases[phase] >= 100 for phase in Phase), findings.phases


def test_at_synchronous_normal_the_same_power_cuts_take_acknowledged_rows_but_never_corrupt(tmp_path: Path) -> None:
    ledger = Ledger("NORMAL")
    log = ledger.record(tmp_path)
    findings = examine_all(log, tmp_path, ledger.history, 1000)
    assert findings.lost_rows >= 1, str(findings)
    assert not findings.corrupt, str(findings)


def test_at_synchronous_off_the_same_power_cuts_take_rows_and_corrupt(tmp_path: Path) -> None:
    ledger = Ledger("OFF")
    log = ledger.record(tmp_path)
    findings = examine_all(log, tmp_path, ledger.history, 400)
    assert findings.lost_rows >= 1, str(findings)
    assert findings.corrupt, str(findings)


@pytest.mark.parametrize("suffix", [DATABASE, WAL], ids=["database", "wal"])
def test_a_disk_that_ignores_the_syncs_of_one_file_is_found_out(
    suffix: str, full: tuple[Ledger, list[Entry]], tmp_path: Path
) -> None:
    ledger, log = full
    ignored = {entry.file for entry in log if isinstance(entry, Create) and entry.suffix == suffix}
    lying = [Sync(entry.file, 0) if isinstance(entry, Sync) and entry.file in ignored else entry for entry in log]
    findings = examine_all(lying, tmp_path, ledger.history, 300)
    assert findings.lost or findings.corrupt, str(findings)


def test_a_second_power_cut_during_recovery_and_the_next_commits_takes_nothing_either(
    full: tuple[Ledger, list[Entry]], tmp_path: Path
) -> None:
    ledger, log = full
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    findings = Findings()
    for image in images(log, random.Random(SEED), 40):
        path = image.write_to(first)
        if read(path)[0] == 0:
            continue  # cut before the tables were there
        image.write_to(first)
        successor = Ledger("FULL")
        with RecordingVFS() as vfs:
            for label in image.acknowledged:  # still owed, so they come first in the second log
                vfs.mark(label)
            with contextlib.closing(successor.connect(path, vfs.name)) as connection:
                number = connection.execute("SELECT number FROM progress").get
                successor.history = ledger.history[: number + 1]
                for _ in range(3):
                    vfs.mark(successor.commit_one(connection))
        for again in images(vfs.log, random.Random(image.seed), 20):
            if again.cut >= len(image.acknowledged):
                examine(again, second, successor.history, findings)
    assert findings.images >= 400
    assert not findings.lost, str(findings)
    assert not findings.corrupt, str(findings)


def test_every_sync_is_cut_just_before_and_just_after(full: tuple[Ledger, list[Entry]]) -> None:
    _, log = full
    cuts = set(choose_cuts(log, random.Random(SEED), 5000))
    syncs = [index for index, entry in enumerate(log) if isinstance(entry, Sync | DirectorySync)]
    assert syncs
    assert all(index in cuts and index + 1 in cuts for index in syncs)


def test_an_image_is_built_again_from_its_cut_kind_and_seed(full: tuple[Ledger, list[Entry]]) -> None:
    _, log = full
    made = list(images(log, random.Random(SEED), 50))
    assert made == list(images(log, random.Random(SEED), 50))
    assert made == [image_at(log, image.cut, image.kind, image.seed) for image in made]
    assert all(image.phases == classify_cut(log, image.cut) for image in made)


def test_keeping_all_at_the_end_gives_the_files_as_they_are(tmp_path: Path) -> None:
    with RecordingVFS("as-they-are") as vfs:
        assert vfs.name == "as-they-are"
        ledger = Ledger("FULL")
        with contextlib.closing(ledger.connect(tmp_path / "a.db", vfs.name)) as connection:
            ledger.create(connection)
            for _ in range(30):
                ledger.commit_one(connection)
            image = image_at(vfs.log, len(vfs.log), Kind.KEEP_ALL, 0)
            assert image.files.keys() == {DATABASE, WAL}
            assert all((tmp_path / f"a.db{suffix}").read_bytes() == image.files[suffix] for suffix in image.files)
    assert "as-they-are" not in apsw.vfs_names()


def test_marks_of_many_threads_and_other_connections_leave_the_log_whole(tmp_path: Path) -> None:
    with RecordingVFS() as vfs:
        ledger = Ledger("FULL")
        writer = ledger.connect(tmp_path / "a.db", vfs.name)
        ledger.create(writer)
        done = threading.Event()
        seen: list[int] = []

        def follow() -> None:
            with contextlib.closing(apsw.Connection(str(tmp_path / "a.db"), vfs=vfs.name)) as reader:
                reader.set_busy_timeout(5000)
                while not done.is_set():
                    seen.append(reader.execute("SELECT number FROM progress").get)

        def acknowledge(thread: int) -> None:
            for n in range(200):
                vfs.mark((thread, n))

        follower = threading.Thread(target=follow)
        threads = [follower]
        threads += [threading.Thread(target=acknowledge, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        try:
            while len(ledger.history) < 60 or (len(seen) < 10 and follower.is_alive()):
                vfs.mark(ledger.commit_one(writer))
        finally:
            done.set()
            for thread in threads:
                thread.join()
        writer.close()
    labels = [entry.label for entry in vfs.log if isinstance(entry, Mark)]
    assert seen
    assert seen == sorted(seen)
    assert [label for label in labels if isinstance(label, int)] == list(range(1, len(ledger.history)))
    for thread_number in range(4):
        assert [x for x in labels if isinstance(x, tuple) and x[0] == thread_number] == [
            (thread_number, n) for n in range(200)
        ]


# Hand-made logs. File 1 is the database here: created, its name synced.
NAMED: list[Entry] = [Create(DATABASE, 1), DirectorySync(1)]


def outcomes(log: list[Entry], kinds: Sequence[Kind] = tuple(Kind), suffix: str = DATABASE) -> set[bytes | None]:
    """Everything that some image says the file may contain after the whole log (None: no such file)."""
    disk = Disk(log)
    disk.advance(len(log))
    return {disk.image(kind, seed).files.get(suffix) for kind in kinds for seed in range(300)}


NO_NOISE = [kind for kind in Kind if kind is not Kind.GARBLED]


def test_a_synced_write_is_there_and_a_later_one_may_be_or_not() -> None:
    log = [*NAMED, Write(1, 0, b"old!"), Sync(1, 3), Write(1, 0, b"new!")]
    assert outcomes(log, NO_NOISE) == {b"old!", b"new!"}
    assert outcomes([*log, Sync(1, 5)]) == {b"new!"}


def test_a_write_that_ends_while_a_sync_is_running_is_not_covered_by_it() -> None:
    log = [*NAMED, Write(1, 0, b"first"), Write(1, 5, b"later"), Sync(1, 3)]
    assert outcomes(log, NO_NOISE) == {b"first", b"firstlater", b"first" + bytes(5)}


def test_unsynced_writes_may_arrive_in_another_order() -> None:
    log = [*NAMED, Write(1, 0, b"aa"), Write(1, 2, b"bb")]
    assert outcomes(log, [Kind.RANDOM_SUBSET]) == {b"", b"aa", b"aabb", b"\0\0bb"}
    assert outcomes(log, [Kind.KEEP_PREFIX]) == {b"", b"aa", b"aabb"}


@pytest.mark.parametrize("sector", [512, 4096])
def test_a_torn_write_mixes_old_and_new_at_sector_boundaries_only(sector: int) -> None:
    old, new = b"o" * 3 * 4096, b"n" * 2 * 4096
    log = [*NAMED, Write(1, 0, old), Sync(1, 3), Write(1, 100, new)]
    found = outcomes(log, [Kind.TORN])
    edges = {at for one in found if one for at in range(1, len(one)) if one[at] != one[at - 1]}
    assert edges <= {100, 100 + len(new), *range(512, len(old), 512)}
    assert sector in edges
    assert all(one is not None and len(one) == len(old) for one in found)
    assert all(one[:100] == old[:100] and one[100 + len(new) :] == old[100 + len(new) :] for one in found if one)


def test_a_garbled_write_damages_only_what_it_covered() -> None:
    log = [*NAMED, Write(1, 0, b"o" * 1024), Sync(1, 3), Write(1, 100, b"n" * 50)]
    found = outcomes(log, [Kind.GARBLED])
    assert len(found) > 3
    assert all(one is not None and one[:100] == b"o" * 100 and one[150:] == b"o" * 874 for one in found)


def test_an_unsynced_growth_may_be_zeros_or_missing() -> None:
    log = [*NAMED, Write(1, 0, b"aa"), Sync(1, 3), Write(1, 2, b"bb")]
    assert b"aa\0\0" in outcomes(log, [Kind.ZERO_EXTENDED])
    assert outcomes(log, [Kind.NOT_EXTENDED]) == {b"aa"}


def test_an_unsynced_truncate_may_have_happened_or_not() -> None:
    log = [*NAMED, Write(1, 0, b"abcd"), Sync(1, 3), Truncate(1, 2)]
    assert outcomes(log) == {b"abcd", b"ab"}
    assert outcomes([*log, Sync(1, 5)]) == {b"ab"}


def test_an_unsynced_name_may_be_missing_even_if_the_content_is_synced() -> None:
    log: list[Entry] = [Create(DATABASE, 1), Write(1, 0, b"x"), Sync(1, 2)]
    assert outcomes(log) == {None, b"x"}
    assert outcomes([*log, DirectorySync(3)]) == {b"x"}


def test_an_unsynced_delete_may_bring_the_older_file_of_that_name_back() -> None:
    log: list[Entry] = [Adopt(WAL, 1, b"older"), Delete(WAL)]
    assert outcomes(log, suffix=WAL) == {None, b"older"}
    log += [Create(WAL, 2), Write(2, 0, b"newer"), Sync(2, 4)]
    assert outcomes(log, suffix=WAL) == {None, b"older", b"newer"}
    assert outcomes([*log, DirectorySync(4)], suffix=WAL) == {b"newer"}


def test_marks_before_the_cut_are_acknowledged_and_later_ones_are_not() -> None:
    log = [*NAMED, Mark("one"), Write(1, 0, b"x"), Mark("two")]
    assert [image_at(log, cut, Kind.KEEP_ALL, 0).acknowledged for cut in (2, 3, 4, 5)] == [
        [],
        ["one"],
        ["one"],
        ["one", "two"],
    ]

"""The disk images that a power cut could leave, built from the log of a RecordingVFS.

What a completed sync covered is there. Of each later operation on that file nothing is promised: a write may be
present, absent, torn at sector boundaries or (in the bytes it covered) garbage, whatever became of its neighbours; a
truncate or a growth of the file may have happened or not; a name may still be missing, or still point at a deleted
file, until the directory was synced. Files are inodes here, because a WAL that is deleted and created again is two
files with one name, and a power cut may bring back the older one.

    for image in images(vfs.log, random.Random(seed), 5000):
        path = image.write_to(directory)
        ...open it; everything in image.acknowledged must be there...

One walk over the log serves all images: what is synced is kept applied, what is not stays a list of operations.
Not modelled: a write that damages bytes outside itself (SQLite relies on "powersafe overwrite" too), a sync that lies,
synced data that rots later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.adversity.recording_vfs import (
    DATABASE,
    SUFFIXES,
    WAL,
    Adopt,
    Create,
    Delete,
    DirectorySync,
    Entry,
    Mark,
    Sync,
    Truncate,
    Write,
)

WAL_HEADER_BYTES = 32
SECTOR_BYTES = (512, 4096)


class Kind(StrEnum):
    """How an image treats what was not synced."""

    DROP_ALL_UNSYNCED = "drop-all-unsynced"
    KEEP_ALL = "keep-all"
    KEEP_PREFIX = "keep-prefix"  # a disk that keeps the order and stops somewhere
    RANDOM_SUBSET = "random-subset"  # each operation is there or not
    TORN = "torn"  # each sector of each write is there or not
    GARBLED = "garbled"  # each sector of each write is there, not there, or noise
    ZERO_EXTENDED = "zero-extended"  # a subset; the file has its full size, the holes are zeros
    NOT_EXTENDED = "not-extended"  # a subset; nothing beyond the synced size made it


class Phase(StrEnum):
    """What the database was doing at a cut."""

    BEFORE_SYNC = "before-sync"  # the next operation is a sync
    AFTER_SYNC = "after-sync"  # the last operation was a sync
    COMMIT = "commit"  # frames in the WAL are not synced
    CHECKPOINT = "checkpoint"  # pages copied to the database are not synced
    WAL_RESET = "wal-reset"  # from the header with new salt until the first new frames are synced
    DIRECTORY = "directory"  # a creation or deletion is not synced
    IDLE = "idle"  # everything is on disk


@dataclass(frozen=True, slots=True)
class Image:
    """The files after one power cut. `image_at(log, cut, kind, seed)` builds the same one again."""

    files: dict[str, bytes]  # by suffix: "" is the database, then "-wal" and "-journal"
    cut: int  # the first log entry that did not happen
    kind: Kind
    seed: int
    acknowledged: list[Any]
    phases: frozenset[Phase]

    def write_to(self, directory: Path, name: str = "journal.db") -> Path:
        """Put the image into `directory` in place of an earlier one; return the database's path."""
        for suffix in (*SUFFIXES, "-shm"):
            path = directory / f"{name}{suffix}"
            content = self.files.get(suffix)
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        return directory / name

    def __str__(self) -> str:
        sizes = ", ".join(f"{suffix or 'database'} {len(content)} bytes" for suffix, content in self.files.items())
        phases = "+".join(sorted(self.phases))
        return f"image_at(log, cut={self.cut}, kind={self.kind!s}, seed={self.seed}) in {phases}: {sizes or 'no files'}"


Operation = Write | Truncate
Fate = Callable[[bytearray, int, Operation], None]


@dataclass(slots=True)
class _File:
    """One inode: what is on disk for certain, and the operations since (with their log index)."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, Operation]] = field(default_factory=list)
    size: int = 0
    frames_unsynced: bool = False  # for a WAL: something beyond its header is not synced
    resetting: bool = False  # for a WAL: its header was written over an older one, no frame after it is synced

    def add(self, index: int, operation: Operation, is_wal: bool) -> None:
        self.pending.append((index, operation))
        if isinstance(operation, Truncate):
            self.size = operation.size
            return
        if operation.offset > 0:
            self.frames_unsynced = True
        elif is_wal and self.size > WAL_HEADER_BYTES:
            self.resetting = True
        self.size = max(self.size, operation.offset + len(operation.data))

    def sync(self, began: int) -> None:
        done = 0
        for index, operation in self.pending:
            if index >= began:
                break
            _apply(self.durable, operation)
            done += 1
        del self.pending[:done]
        if self.frames_unsynced and not self.pending:
            self.frames_unsynced = self.resetting = False

    def after_the_cut(self, kind: Kind, horizon: int, rng: random.Random) -> bytes:
        content = bytearray(self.durable)
        if self.pending and kind is not Kind.DROP_ALL_UNSYNCED:
            fate = _fate(kind, horizon, [index for index, _ in self.pending], rng)
            for index, operation in self.pending:
                fate(content, index, operation)
                if kind is Kind.ZERO_EXTENDED and isinstance(operation, Write):
                    _resize(content, max(len(content), operation.offset + len(operation.data)))
            if kind is Kind.NOT_EXTENDED:
                del content[len(self.durable) :]
        return bytes(content)


def _resize(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    else:
        del content[size:]


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        _resize(content, offset)
    content[offset : offset + len(data)] = data


def _apply(content: bytearray, operation: Operation) -> None:
    if isinstance(operation, Write):
        _put(content, operation.offset, operation.data)
    else:
        _resize(content, operation.size)


def _fate(kind: Kind, horizon: int, indexes: list[int], rng: random.Random) -> Fate:
    """What becomes of each unsynced operation of one file.

    A single exception among many (one write lost, one torn) is the shape that fools a careless recovery, and an
    independent coin per operation almost never throws it: half of the images single one operation out.
    """
    if kind in (Kind.KEEP_ALL, Kind.KEEP_PREFIX):
        return lambda content, index, operation: _apply(content, operation) if index < horizon else None
    share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    odd = rng.choice(indexes) if rng.random() < 0.5 else None
    others_happen = rng.random() < 0.75

    if kind in (Kind.TORN, Kind.GARBLED):
        sector = rng.choice(SECTOR_BYTES)
        garble = kind is Kind.GARBLED

        def tear(content: bytearray, index: int, operation: Operation) -> None:
            if odd is not None and index != odd:
                if others_happen:
                    _apply(content, operation)
            elif isinstance(operation, Write):
                _tear(content, operation, sector, 0.5 if odd is not None else share, garble, rng)
            elif rng.random() < 0.5:
                _apply(content, operation)

        return tear

    def choose(content: bytearray, index: int, operation: Operation) -> None:
        happens = (index == odd) != others_happen if odd is not None else rng.random() < share
        if happens:
            _apply(content, operation)

    return choose


def _tear(content: bytearray, write: Write, sector: int, share: float, garble: bool, rng: random.Random) -> None:
    position, end = write.offset, write.offset + len(write.data)
    while position < end:
        stop = min(end, (position // sector + 1) * sector)
        if rng.random() < share:
            _put(content, position, write.data[position - write.offset : stop - write.offset])
        elif garble and rng.random() < 0.5:
            _put(content, position, rng.randbytes(stop - position))
        position = stop


class Disk:
    """The state of the recorded files at one position of the log; `advance` moves it on."""

    def __init__(self, log: Sequence[Entry]) -> None:
        self.log = log
        self.cut = 0
        self.acknowledged: list[Any] = []
        self._files: dict[int, _File] = {}
        self._wal_files: set[int] = set()
        self._names: dict[str, int | None] = {}  # as the running system sees them
        self._durable_names: dict[str, int | None] = {}
        self._pending_names: list[tuple[int, str, int | None]] = []
        self._last: Entry | None = None  # the last one that was not a mark

    def advance(self, cut: int) -> None:
        if cut < self.cut:
            raise ValueError(f"the walk is past {cut} already, at {self.cut}")
        while self.cut < cut:
            self._happen(self.cut, self.log[self.cut])
            self.cut += 1

    def _happen(self, index: int, entry: Entry) -> None:
        match entry:
            case Mark(label):
                self.acknowledged.append(label)
                return
            case Write(file) | Truncate(file):
                self._files[file].add(index, entry, file in self._wal_files)
            case Sync(file, began):
                self._files[file].sync(began)
            case Create(suffix, file) | Adopt(suffix, file):
                self._files[file] = _File()
                if suffix == WAL:
                    self._wal_files.add(file)
                if isinstance(entry, Adopt):
                    self._files[file] = _File(bytearray(entry.content), size=len(entry.content))
                    self._durable_names[suffix] = file
                else:
                    self._pending_names.append((index, suffix, file))
                self._names[suffix] = file
            case Delete(suffix):
                self._pending_names.append((index, suffix, None))
                self._names[suffix] = None
            case DirectorySync(began):
                self._durable_names |= {suffix: file for at, suffix, file in self._pending_names if at < began}
                self._pending_names = [change for change in self._pending_names if change[0] >= began]
        self._last = entry

    def phases(self) -> frozenset[Phase]:
        found = set()
        after = self.cut
        while after < len(self.log) and isinstance(self.log[after], Mark):
            after += 1
        if after < len(self.log) and isinstance(self.log[after], Sync | DirectorySync):
            found.add(Phase.BEFORE_SYNC)
        if isinstance(self._last, Sync | DirectorySync):
            found.add(Phase.AFTER_SYNC)
        database = self._files.get(self._names.get(DATABASE) or 0)
        wal = self._files.get(self._names.get(WAL) or 0)
        if wal is not None:
            if wal.frames_unsynced:
                found.add(Phase.COMMIT)
            if database is not None and database.pending:
                found.add(Phase.CHECKPOINT)
            if wal.resetting:
                found.add(Phase.WAL_RESET)
        if self._pending_names:
            found.add(Phase.DIRECTORY)
        elif not any(file.pending for file in self._reachable()):
            found.add(Phase.IDLE)
        return frozenset(found)

    def _reachable(self) -> list[_File]:
        """The files that have a name now or could have one after the cut."""
        files = {*self._durable_names.values(), *(file for _, _, file in self._pending_names)}
        return [self._files[file] for file in files if file is not None]

    def image(self, kind: Kind, seed: int) -> Image:
        """What a power cut at this moment leaves."""
        rng = random.Random(seed)
        horizon = self._horizon(kind, rng)
        files = {
            suffix: self._files[file].after_the_cut(kind, horizon, rng)
            for suffix, file in self._names_after_the_cut(kind, horizon, rng).items()
            if file is not None
        }
        return Image(files, self.cut, kind, seed, self.acknowledged.copy(), self.phases())

    def _horizon(self, kind: Kind, rng: random.Random) -> int:
        """The log index from which on nothing reached the disk, for the kinds that keep the order."""
        if kind is not Kind.KEEP_PREFIX:
            return self.cut
        unsynced = [file.pending[0][0] for file in self._reachable() if file.pending]
        unsynced += [index for index, _, _ in self._pending_names[:1]]
        return rng.randint(min(unsynced), self.cut) if unsynced else self.cut

    def _names_after_the_cut(self, kind: Kind, horizon: int, rng: random.Random) -> dict[str, int | None]:
        names = self._durable_names.copy()
        if kind is Kind.DROP_ALL_UNSYNCED:
            return names
        if kind in (Kind.KEEP_ALL, Kind.KEEP_PREFIX):
            return names | {suffix: file for index, suffix, file in self._pending_names if index < horizon}
        for suffix in SUFFIXES:
            reachable = [names.get(suffix), *(file for _, name, file in self._pending_names if name == suffix)]
            names[suffix] = rng.choice(reachable)
        return names


def classify_cut(log: Sequence[Entry], cut: int) -> frozenset[Phase]:
    """The phases that a cut before entry `cut` falls into: a checkpoint can, for one, be just before a sync too."""
    disk = Disk(log)
    disk.advance(cut)
    return disk.phases()


def choose_cuts(log: Sequence[Entry], rng: random.Random, count: int) -> list[int]:
    """`count` positions, the same number from every phase as far as there are any; sorted, some more than once."""
    by_phase: dict[Phase, list[int]] = {}
    disk = Disk(log)
    for cut in range(len(log) + 1):
        disk.advance(cut)
        for phase in sorted(disk.phases()):
            by_phase.setdefault(phase, []).append(cut)
    for positions in by_phase.values():
        rng.shuffle(positions)
    # An idle disk leaves one image only, however often one cuts: the others share its part.
    if len(by_phase) > 1:
        by_phase.pop(Phase.IDLE, None)
    phases = list(by_phase.values())
    turns = [(phases[turn % len(phases)], turn // len(phases)) for turn in range(count)]
    return sorted(positions[turn % len(positions)] for positions, turn in turns)


def images(
    log: Sequence[Entry], rng: random.Random, count: int, kinds: Sequence[Kind] = tuple(Kind)
) -> Iterator[Image]:
    """`count` images in the order of their cuts, reproducible from the state of `rng`."""
    disk = Disk(log)
    for cut in choose_cuts(log, rng, count):
        disk.advance(cut)
        yield disk.image(rng.choice(kinds), rng.getrandbits(32))


def image_at(log: Sequence[Entry], cut: int, kind: Kind, seed: int) -> Image:
    """One image, to look at a failure again."""
    disk = Disk(log)
    disk.advance(cut)
    return disk.image(kind, seed)

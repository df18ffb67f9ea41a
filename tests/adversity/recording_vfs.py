"""A SQLite VFS that passes every call to the real file system and remembers what a power cut could undo.

    with RecordingVFS() as vfs:
        connection = apsw.Connection(path, vfs=vfs.name)
        ...commit...
        vfs.mark(event_id)  # the moment the application acknowledges
    images(vfs.log, ...)    # power_cut.py

It records the first database opened through it, with its -wal and -journal; temporary files and other databases pass
unrecorded. The -shm never comes through here: it is a memory map that SQLite rebuilds after a power cut.

An entry is logged when its operation has *returned*. A sync also notes how long the log was when it began: a write
that another thread finished while the sync was running is not promised to be part of it. `list.append` is atomic, so
the hot path (`xWrite`, `mark`) takes no lock; only opening and deleting, which change the directory, do.

Not for timing: apsw keeps the GIL while it calls the real file system from a Python VFS, so that a sync stops every
other Python thread too (the plain VFS lets them run), and file operations of two threads never overlap.
"""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple, Self

import apsw

DATABASE, WAL, JOURNAL = "", "-wal", "-journal"
SUFFIXES = (DATABASE, WAL, JOURNAL)


class Create(NamedTuple):
    """A new, empty file got this name. `file` is its inode: a name deleted and created again is another file."""

    suffix: str
    file: int


class Adopt(NamedTuple):
    """A file that was there before the recording began, and so is on disk already, name and content."""

    suffix: str
    file: int
    content: bytes


class Write(NamedTuple):
    file: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    file: int
    size: int


class Sync(NamedTuple):
    """The file's operations logged before index `began` are on disk."""

    file: int
    began: int
    flags: int = apsw.SQLITE_SYNC_NORMAL


class Delete(NamedTuple):
    suffix: str


class DirectorySync(NamedTuple):
    """The creations and deletions logged before index `began` are on disk."""

    began: int


class Mark(NamedTuple):
    """The application acknowledged `label`: from here on a power cut may not take it away."""

    label: Any


Entry = Create | Adopt | Write | Truncate | Sync | Delete | DirectorySync | Mark

_DIRECTORY_SYNCED_TYPES = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
_serial = itertools.count(1)


class RecordingVFS(apsw.VFS):
    """Registered under `name` (a fresh one if none is given) until `unregister()` or the end of the `with` block."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or f"recording-{os.getpid()}-{next(_serial)}"
        if self.name in apsw.vfs_names():
            raise ValueError(f"a VFS named {self.name!r} is already registered")
        self.log: list[Entry] = []
        self._database: str | None = None
        self._files: dict[str, int] = {}  # suffix -> inode now under that name
        self._inodes = itertools.count(1)
        self._directory_lock = threading.Lock()
        super().__init__(self.name, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def mark(self, label: Any) -> None:
        """Note in the log, from any thread, that `label` has just been acknowledged."""
        self.log.append(Mark(label))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        with self._directory_lock:
            if self._database is None and path is not None and flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
                self._database = path
                for suffix in SUFFIXES:
                    self._adopt(suffix)
            suffix_or_none = self._suffix(path)
            if suffix_or_none is None:
                return apsw.VFSFile("", name, flags)
            self._adopt(suffix_or_none)
            file = _RecordedFile(name, flags, self.log)
            inode = self._files.get(suffix_or_none)
            if inode is None:
                inode = self._files[suffix_or_none] = next(self._inodes)
                self.log.append(Create(suffix_or_none, inode))
            file.inode = inode
            return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with self._directory_lock:
            super().xDelete(filename, syncdir)
            suffix = self._suffix(filename)
            if suffix is not None:
                self._files.pop(suffix, None)
                self.log.append(Delete(suffix))
                if syncdir:
                    self.log.append(DirectorySync(len(self.log)))

    def _suffix(self, path: str | None) -> str | None:
        if path is None or self._database is None or not path.startswith(self._database):
            return None
        suffix = path[len(self._database) :]
        return suffix if suffix in SUFFIXES else None

    def _adopt(self, suffix: str) -> None:
        path = Path(f"{self._database}{suffix}")
        if suffix not in self._files and path.exists():
            self._files[suffix] = next(self._inodes)
            self.log.append(Adopt(suffix, self._files[suffix], path.read_bytes()))


class _RecordedFile(apsw.VFSFile):
    """One open handle. Locks and shared memory are inherited, so WAL mode works as on the plain VFS."""

    inode: int

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], log: list[Entry]) -> None:
        self._log = log
        # What SQLite's unix VFS does (seen with strace): the first sync through a handle that was opened to create a
        # journal or a WAL also syncs the directory, which carries the database's own name to disk too.
        self._directory_sync_due = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _DIRECTORY_SYNCED_TYPES)
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._log.append(Write(self.inode, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._log.append(Truncate(self.inode, newsize))

    def xSync(self, flags: int) -> None:
        began = len(self._log)
        super().xSync(flags)
        self._log.append(Sync(self.inode, began, flags))
        if self._directory_sync_due:
            self._directory_sync_due = False
            self._log.append(DirectorySync(began))

"""The file of the outbox: opened by one process, its settings read back, its schema up to date.

A file system that does not take a durability setting must not pass for one that does.
"""

import contextlib
import errno
import fcntl
import os
from enum import Enum
from pathlib import Path
from typing import Final

import apsw

from edge import schema
from edge.errors import OutboxDamaged, OutboxInUse, OutboxUnusable
from edge.limits import BUSY_TIMEOUT_MS, CACHE_KIB, WAL_BYTES_KEPT_MAX, WAL_PAGES_MAX

FILE_NAME: Final = "listener_outbox.db"
SQLITE_VERSION_MIN: Final = (3, 51, 3)
"""Older versions can corrupt a database when a WAL is reset while another connection checkpoints it."""

SETTINGS: Final[tuple[tuple[str, str | int, str | int], ...]] = (
    ("auto_vacuum", "incremental", 2),
    ("journal_mode", "wal", "wal"),
    ("synchronous", "full", 2),
    ("busy_timeout", BUSY_TIMEOUT_MS, BUSY_TIMEOUT_MS),
    ("wal_autocheckpoint", WAL_PAGES_MAX, WAL_PAGES_MAX),
    ("journal_size_limit", WAL_BYTES_KEPT_MAX, WAL_BYTES_KEPT_MAX),
    ("cache_size", -CACHE_KIB, -CACHE_KIB),
    ("temp_store", "memory", 2),
)
"""Each pragma, what it is set to, and what it must then read as."""


class Severity(Enum):
    """What an SQLite error means for those whose work was to be committed."""

    TRANSIENT = "transient"  # locked, or something that passes
    FULL = "full"  # no room
    FATAL = "fatal"  # after a failed write or sync, a later success proves nothing


_TRANSIENT: Final = (apsw.BusyError, apsw.LockedError, apsw.NoMemError, apsw.InterruptError, apsw.CantOpenError)
_IOERR_THAT_PASS: Final = frozenset(
    {
        apsw.SQLITE_IOERR_RDLOCK,
        apsw.SQLITE_IOERR_UNLOCK,
        apsw.SQLITE_IOERR_NOMEM,
        apsw.SQLITE_IOERR_CHECKRESERVEDLOCK,
        apsw.SQLITE_IOERR_LOCK,
    }
)


def severity(error: apsw.Error) -> Severity:
    """How to go on after an error. What is not known to pass is fatal: stopping is always safe, going on is not."""
    code: int = getattr(error, "extendedresult", 0)
    if isinstance(error, apsw.FullError) or code == apsw.SQLITE_IOERR_SHMSIZE:
        return Severity.FULL
    if isinstance(error, _TRANSIENT) or code in _IOERR_THAT_PASS:
        return Severity.TRANSIENT
    return Severity.FATAL


def check_sqlite_version(version: str) -> None:
    """Raise OutboxUnusable for an SQLite with the WAL-reset bug."""
    if tuple(int(part) for part in version.split(".")[:3]) < SQLITE_VERSION_MIN:
        wanted = ".".join(map(str, SQLITE_VERSION_MIN))
        raise OutboxUnusable(
            f"SQLite {version} has a bug that can corrupt the outbox; {wanted} or newer is needed: upgrade apsw"
        )


def sync_directory(directory: Path) -> None:
    """Put the names in a directory on disk; raise OSError when that fails."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync a directory, and need not
            raise
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Create a directory, and those above it, so that a power cut does not take it away with all that it holds."""
    if directory.exists():
        return
    make_directory(directory.parent)
    directory.mkdir(0o700, exist_ok=True)
    sync_directory(directory.parent)


class FileLock:
    """Holds an outbox for this process alone; the lock goes when the process does, however it ends."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise OutboxInUse(
                f"{path}: another process ({holder}) has this outbox open; hand events to it, or use another file"
            ) from None
        except BaseException:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let others have it."""
        os.close(self._descriptor)


def _set(connection: apsw.Connection, pragma: str, value: str | int, expected: str | int) -> None:
    connection.execute(f"PRAGMA {pragma} = {value}").fetchall()
    found = connection.pragma(pragma)
    if found != expected:
        raise OutboxUnusable(f"{connection.filename}: PRAGMA {pragma} is {found!r}, not {expected!r} as asked for")


def check_schema_version(connection: apsw.Connection) -> int:
    """The schema version of the file; raise OutboxUnusable, and touch nothing, if it is not ours or too new."""
    application_id = connection.pragma("application_id")
    version = connection.pragma("user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application_id != schema.APPLICATION_ID and (application_id or version or tables):
        raise OutboxUnusable(f"{connection.filename}: this database belongs to another program; nothing was changed")
    if version > schema.VERSION:
        raise OutboxUnusable(
            f"{connection.filename}: written by a newer Courier (schema {version}, this program knows "
            f"{schema.VERSION}); nothing was changed: upgrade, or use another file"
        )
    assert isinstance(version, int)
    return version


def migrate(connection: apsw.Connection) -> None:
    """Bring the schema up to date, each step in a transaction of its own."""
    found = check_schema_version(connection)
    for number, script in enumerate(schema.MIGRATIONS[found:], start=found + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(script)
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}; PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # an I/O error has ended it already
                connection.execute("ROLLBACK")
            raise


def note_failure(path: Path) -> None:
    """Leave a note that the file failed, so that the next start looks at all of it."""
    with contextlib.suppress(OSError):
        Path(f"{path}.failed").touch()


def _check_after_failure(connection: apsw.Connection, path: Path) -> None:
    """Look for damage in the middle, which does not show when a file is opened; once, because it takes long."""
    note = Path(f"{path}.failed")
    if not note.exists():
        return
    found = connection.execute("PRAGMA quick_check(1)").get
    if found != "ok":
        raise apsw.CorruptError(str(found))
    note.unlink()


def open_outbox(path: Path, *, vfs: str | None = None) -> apsw.Connection:
    """The connection that writes. Raise OutboxUnusable for a file that cannot be used; it is left as it is."""
    check_sqlite_version(apsw.sqlite_lib_version())
    try:
        make_directory(path.parent)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = apsw.Connection(str(path), vfs=vfs)
    except (apsw.Error, OSError) as error:
        raise OutboxUnusable(f"{path}: cannot be opened: {error}") from error
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        check_schema_version(connection)
        for pragma, value, expected in SETTINGS:
            _set(connection, pragma, value, expected)
        migrate(connection)
        _check_after_failure(connection, path)
        sync_directory(path.parent)  # the WAL is there from here on
    except (apsw.NotADBError, apsw.CorruptError) as error:
        connection.close()
        raise OutboxDamaged(
            f"{path}: damaged, or no outbox at all ({error}); nothing was changed. Move it and its -wal aside to "
            f"begin anew, and export what can still be read from the copy"
        ) from error
    except (apsw.Error, OSError) as error:
        connection.close()
        raise OutboxUnusable(f"{path}: cannot be opened: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """A connection that cannot write, beside whoever does. Raise OutboxUnusable for a file that is no outbox."""
    if not path.exists():
        raise OutboxUnusable(f"{path}: there is no outbox; name one with --path, or put a first event")
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error as error:
        raise OutboxUnusable(f"{path}: cannot be opened: {error}") from error
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        if check_schema_version(connection) == 0:
            raise OutboxUnusable(f"{path}: this is not an outbox")
    except apsw.Error as error:
        connection.close()
        raise OutboxUnusable(f"{path}: cannot be read: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection

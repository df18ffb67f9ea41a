"""Connections to `courier.db`: the one that writes, and those that read.

Durability settings are read back after they were set: a file system or a build that does not take
them must not pass for one that does.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from broker.errors import ConfigError
from broker.journal import schema
from broker.limits import BUSY_TIMEOUT_MS

FILE_NAME: Final = "courier.db"
LOCK_NAME: Final = "courier.lock"

SQLITE_VERSION_MIN: Final = (3, 51, 3)
"""Older versions can corrupt a database when a WAL is reset while another connection checkpoints it."""

CACHE_KIB: Final = 32 * 1024


def check_sqlite_version(version: str) -> None:
    """Raise ConfigError for an SQLite with the WAL-reset bug."""
    if tuple(int(part) for part in version.split(".")[:3]) < SQLITE_VERSION_MIN:
        wanted = ".".join(map(str, SQLITE_VERSION_MIN))
        raise ConfigError(
            [f"SQLite {version} has a bug that can corrupt the journal; {wanted} or newer is needed: upgrade apsw"]
        )


def sync_directory(directory: Path) -> None:
    """Put the names in a directory on disk; raise OSError when that fails. SQLite syncs them too, but does not look."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync a directory, and need not
            raise
    finally:
        os.close(descriptor)


def make_directory(directory: Path, mode: int = 0o777) -> None:
    """Create a directory, and those above it, so that a power cut does not take it away with all that it holds."""
    if directory.exists():
        return
    make_directory(directory.parent)
    directory.mkdir(mode, exist_ok=True)
    sync_directory(directory.parent)


@contextmanager
def directory_lock(directory: Path) -> Iterator[None]:
    """Hold the data directory for this process alone; the lock goes when the process does, however it ends."""
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise ConfigError(
                [f"{directory}: another broker (process {holder}) uses this data directory; stop it, or give another"]
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _set(connection: apsw.Connection, pragma: str, value: str | int, expected: str | int) -> None:
    connection.execute(f"PRAGMA {pragma} = {value}").fetchall()
    found = connection.pragma(pragma)
    if found != expected:
        raise ConfigError([f"{connection.filename}: PRAGMA {pragma} is {found!r}, not {expected!r} as asked for"])


def _prepare_file(path: Path) -> None:
    """Create the database readable by its owner alone, and refuse what is not a journal."""
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def check_schema_version(connection: apsw.Connection) -> int:
    """The schema version of the file; raise ConfigError, with nothing touched, for one that is not ours or too new."""
    application_id = connection.pragma("application_id")
    version = connection.pragma("user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application_id != schema.APPLICATION_ID and (application_id or version or tables):
        raise ConfigError([f"{connection.filename}: this database belongs to another program; nothing was changed"])
    if version > schema.VERSION:
        raise ConfigError(
            [
                f"{connection.filename}: written by a newer Courier (schema {version}, this program knows "
                f"{schema.VERSION}); nothing was changed: upgrade, or use another data directory"
            ]
        )
    assert isinstance(version, int)
    return version


def migrate(connection: apsw.Connection) -> int:
    """Bring the schema up to date, each step in a transaction of its own; the version found before."""
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
    return found


def open_writer(path: Path, *, synchronous: str, vfs: str | None = None) -> apsw.Connection:
    """The one write connection, its settings verified and its schema up to date.

    Raise ConfigError when the file cannot be used as a journal.
    """
    check_sqlite_version(apsw.sqlite_lib_version())
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    try:
        _prepare_file(path)
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    except (apsw.Error, OSError) as error:
        raise ConfigError([f"{path}: cannot be opened: {error}"]) from error
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        check_schema_version(connection)
        _set(connection, "journal_mode", "wal", "wal")
        _set(connection, "synchronous", synchronous, {"full": 2, "normal": 1}[synchronous])
        _set(connection, "foreign_keys", 1, 1)
        _set(connection, "busy_timeout", BUSY_TIMEOUT_MS, BUSY_TIMEOUT_MS)
        _set(connection, "wal_autocheckpoint", 0, 0)
        _set(connection, "cache_size", -CACHE_KIB, -CACHE_KIB)
        _set(connection, "temp_store", "memory", 2)
        migrate(connection)
        sync_directory(path.parent)  # the WAL is there from here on
    except apsw.NotADBError as error:
        connection.close()
        raise ConfigError([f"{path}: not an SQLite database; nothing was changed"]) from error
    except (apsw.Error, OSError) as error:
        connection.close()
        raise ConfigError([f"{path}: cannot be opened: {error}"]) from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, *, vfs: str | None = None) -> apsw.Connection:
    """A connection that cannot write."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.pragma("query_only", True)
    return connection

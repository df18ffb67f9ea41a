"""A file of lines that is rotated by size. All of it may block, so it belongs to a thread of its own.

A line is whole or not there: what a full disk cut off is taken away again. Others may rename the file; `reopen`
makes the next line go to a new one.
"""

import os
from contextlib import suppress
from pathlib import Path

from broker.errors import ConfigError


def check_writable(path: Path) -> None:
    """Raise ConfigError when lines could not be appended to this file."""
    try:
        os.close(_open(path))
    except OSError as error:
        raise ConfigError([f"events.log: {path} cannot be written: {error.strerror}"]) from error


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


class LineFile:
    """`path` is written; `path.1` is the one before it, up to `path.<keep>`."""

    def __init__(self, path: Path, bytes_max: int, keep: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._keep = keep
        self._descriptor: int | None = None

    def append(self, lines: bytes) -> None:
        """Append whole lines, after a rotation if they would make the file too large; raise OSError if it fails.

        Then nothing of them is there.
        """
        descriptor = self._open()
        size = os.fstat(descriptor).st_size
        if size and size + len(lines) > self._bytes_max:
            self._rotate()
            descriptor, size = self._open(), 0
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            with suppress(OSError):  # then a torn line stays, and the next one starts behind it
                os.ftruncate(descriptor, size)
            raise

    def reopen(self) -> None:
        """Go on in the file that has the name now."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = _open(self._path)
        return self._descriptor

    def _rotate(self) -> None:
        self.reopen()
        for number in range(self._keep, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            with suppress(FileNotFoundError):
                newer.replace(older)
        if not self._keep:
            self._path.unlink()

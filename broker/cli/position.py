"""How far a replay has come, in a file beside it: so that it goes on there when it is called again.

The file is replaced as a whole, and only after the broker has answered for all that lies before the position. It has
the digest of the last line, so that another file is not taken for the one that was begun. A last line without its end
is sent, but is not done: the rest of it may not have been written yet.
"""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from broker.cli.stdin_lines import StdinLine


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many lines are done; the last of them had this digest."""

    lines: int
    sha256: str


START = Position(0, "")


class Lines(Protocol):
    """Where lines come from."""

    @property
    def problem(self) -> str | None:
        """Why nothing more could be read, if that was not the end."""

    async def batch(self) -> list[StdinLine]:
        """The next lines; none at the end."""


class NoPosition(Exception):
    """The file does not hold a position, or not one in what is replayed."""


def after(line: StdinLine) -> Position:
    """The position behind a line. One that is too long to be kept in memory has no digest."""
    return Position(line.number, "" if line.text is None else hashlib.sha256(line.text).hexdigest())


class LinesBehind:
    """The lines behind a position. Those before it are read, because stdin cannot be told to go on elsewhere."""

    def __init__(self, lines: Lines, position: Position, name: str) -> None:
        self._lines = lines
        self._position = position
        self._name = name
        self._is_reached = position == START
        self._unfinished: list[StdinLine] = []
        """The last line, if it has no end: a batch of its own."""

    @property
    def problem(self) -> str | None:
        """Why nothing more could be read, if that was not the end."""
        return self._lines.problem

    async def batch(self) -> list[StdinLine]:
        """The next lines; raise NoPosition when those before it are not the ones that were done."""
        while True:
            found = self._unfinished or await self._lines.batch()
            self._unfinished = []
            if len(found) > 1 and not found[-1].is_whole:
                self._unfinished.append(found.pop())
            if not self._is_reached:
                self._look_for_position(found)
            behind = [line for line in found if line.number > self._position.lines]
            if behind or not found:
                return behind

    def _look_for_position(self, found: list[StdinLine]) -> None:
        done = self._position.lines
        if not found:
            raise NoPosition(f"{self._name}: has less than the {done} lines that were done; is it the same file?")
        for line in found:
            if line.number == done:
                if after(line) != self._position:
                    raise NoPosition(f"{self._name}: line {done} is not the one that was done; is it the same file?")
                self._is_reached = True


class PositionFile(NamedTuple):
    """Where positions are kept."""

    path: Path

    def read(self) -> Position:
        """The position that is kept; the start if there is no file."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Position)
        except FileNotFoundError:
            return START
        except OSError as error:
            raise NoPosition(f"{self.path}: cannot be read: {error.strerror}") from None
        except msgspec.MsgspecError:
            raise NoPosition(f"{self.path}: holds no position; name another file, or delete it to begin anew") from None

    def write(self, position: Position) -> None:
        """Keep a position. A crash leaves the one before."""
        beside = self.path.with_name(f"{self.path.name}.new")
        try:
            with beside.open("wb") as file:
                file.write(msgspec.json.encode(position))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise NoPosition(f"{self.path}: cannot be written: {error.strerror}") from None

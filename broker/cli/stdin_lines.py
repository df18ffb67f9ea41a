"""The lines of stdin as they come, without waiting for a batch to fill, and never more of them than a bound in memory.

A thread reads, because a file, a pipe and a terminal can be read in the same way only by blocking. It reads the
bare descriptor: a thread that waits inside Python's own buffer holds a lock, which the end of the process would need.
"""

import asyncio
import os
import threading
from collections import deque
from typing import NamedTuple

from broker.limits import ENVELOPE_BYTES_MAX

CHUNK_BYTES = 64 * 1024
CHUNKS_AHEAD_MAX = 16
BATCH_LINES_MAX = 1_000
BATCH_BYTES_MAX = 512 * 1024
LINE_BYTES_MAX = ENVELOPE_BYTES_MAX


class StdinLine(NamedTuple):
    """One line without its end; its text is None if it is longer than any event may be."""

    number: int
    text: bytes | None
    end: int
    """How many bytes there are up to the beginning of the next line."""
    is_whole: bool = True
    """Whether it has its end; the last line of a file that is being written may not have it yet."""


class StdinLines:
    """Takes lines from a descriptor. Make it inside a running loop."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD_MAX)
        self._lines: deque[StdinLine] = deque()
        self._rest = b""
        self._is_too_long = False
        self._number = 0
        self._offset = 0
        self._has_ended = False
        self.problem: str | None = None
        """Why nothing more could be read, if that was not the end."""
        threading.Thread(target=self._read, daemon=True).start()

    async def batch(self) -> list[StdinLine]:
        """All lines that are there, up to the size of a batch; it waits for the first one. Empty at the end."""
        while not self._lines and not self._has_ended:
            self._split(await self._chunks.get())
        while len(self._lines) < BATCH_LINES_MAX and not self._has_ended and not self._chunks.empty():
            self._split(self._chunks.get_nowait())
        taken: list[StdinLine] = []
        size = 0
        while self._lines and len(taken) < BATCH_LINES_MAX and size < BATCH_BYTES_MAX:
            line = self._lines.popleft()
            size += len(line.text or b"")
            taken.append(line)
        return taken

    def _read(self) -> None:
        while True:
            self._room.acquire()
            try:
                chunk = os.read(self._descriptor, CHUNK_BYTES)
            except OSError as error:
                self.problem = error.strerror
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: nobody wants more
                return
            if not chunk:
                return

    def _split(self, chunk: bytes) -> None:
        self._room.release()
        if not chunk:
            self._has_ended = True
            if self._rest or self._is_too_long:
                self._add(self._rest, self._offset, is_whole=False)
            return
        *whole, rest = chunk.split(b"\n")
        end = self._offset
        self._offset += len(chunk)
        for line in whole:
            end += len(line) + 1
            self._add(self._rest + line, end)
            self._rest = b""
        self._rest += rest
        if len(self._rest) > LINE_BYTES_MAX:
            self._rest, self._is_too_long = b"", True

    def _add(self, line: bytes, end: int, *, is_whole: bool = True) -> None:
        self._number += 1
        text = None if self._is_too_long or len(line) > LINE_BYTES_MAX else line
        self._lines.append(StdinLine(self._number, text, end, is_whole))
        self._is_too_long = False

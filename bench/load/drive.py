"""One loop over all connections, until everything is answered.

What it does for an event is what a chunk of many costs, shared by them: bytes are sent as they lie, and answers are
counted by a search in what was read. So one core of Python drives more than any server here takes.
"""

import gc
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bench.failure import BenchmarkFailed
from bench.load.lines import Line

STALL_SECONDS = 20.0
"""A server that answers nothing for so long has lost something."""


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep the garbage collector out of what is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Loop:
    """The connections, and which of them wait for room to send."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = {line.connection.fileno(): line for line in lines}
        self._epoll = select.epoll()
        self._waiting: set[int] = set()
        self._open = {file for file, line in self._lines.items() if not line.done}
        for file in self._lines:
            self._epoll.register(file, select.EPOLLIN)

    def start(self) -> None:
        """Let every connection send what it may."""
        for file, line in self._lines.items():
            line.writable()
            self._settle(file, line)

    def step(self, timeout_seconds: float) -> bool:
        """Do what can be done, or wait for it; whether there was anything."""
        ready = self._epoll.poll(timeout_seconds)
        for file, what in ready:
            line = self._lines[file]
            if what & ~select.EPOLLOUT:
                line.readable()
            else:
                line.writable()
            self._settle(file, line)
        return bool(ready)

    def _settle(self, file: int, line: Line) -> None:
        if line.stuck != (file in self._waiting):
            self._waiting ^= {file}
            self._epoll.modify(file, select.EPOLLIN | (select.EPOLLOUT if file in self._waiting else 0))
        if line.done:
            self._open.discard(file)
        else:
            self._open.add(file)

    @property
    def done(self) -> bool:
        """Whether every connection is."""
        return not self._open

    def close(self) -> None:
        """Let go of the connections; they stay open."""
        self._epoll.close()


class Timed(NamedTuple):
    """How long something took."""

    seconds: float
    busy: float
    """How much of it the load generator was at work: near 1, it is the generator that was measured."""


def drive(
    lines: Sequence[Line], until: Callable[[], bool] = lambda: True, *, stall_seconds: float = STALL_SECONDS
) -> Timed:
    """Run until every line is done and `until` holds, and the server has confirmed what it was told last."""
    loop = Loop(lines)
    try:
        with no_collections():
            started, worked = time.perf_counter(), time.process_time()
            while True:
                loop.start()
                while not (loop.done and until()):
                    if not loop.step(stall_seconds):
                        raise BenchmarkFailed(_stalled(lines, stall_seconds))
                if not [line for line in lines if line.finish()]:
                    break
            seconds = time.perf_counter() - started
            return Timed(seconds, (time.process_time() - worked) / seconds)
    finally:
        loop.close()


def _stalled(lines: Sequence[Line], seconds: float) -> str:
    """What is missing, and what the first of those that wait heard last."""
    waiting = [line for line in lines if not line.done]
    words = (waiting or lines)[0].last_words()
    return (
        f"nothing came for {seconds:.0f} s, and {len(waiting)} of {len(lines)} connections still wait; "
        f"the last words to one of them: {words}"
    )

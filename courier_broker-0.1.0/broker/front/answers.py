"""The answers that wait for one producer: in order, those of one group commit in one write."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from broker.front.sockets import GOODBYE_SECONDS
from broker.limits import PUBLISH_WINDOW, WRITE_BYTES_MAX


class WayOut(Protocol):
    """Where answers go."""

    async def send(self, frames: Sequence[bytes]) -> None:
        """Return when all of it has left; raise ConnectionError when the peer is gone, or reads nothing."""

    def cut(self) -> None:
        """End without waiting for what is stuck."""


class Answers:
    """The answers that wait for one producer, and how many events are still unanswered."""

    def __init__(self) -> None:
        self._frames: deque[tuple[bytes, int]] = deque()
        """What waits to be sent, and how many answers that is."""
        self._waiting = 0
        self._unanswered = 0
        self._gone = False
        self._ready = asyncio.Event()
        self._progress = asyncio.Event()

    def expect(self, events: int) -> None:
        """So many events are on their way to the journal."""
        self._unanswered += events

    def put(self, frame: bytes, answered: int = 0) -> None:
        """Queue a frame, or several that are one, which answers so many events."""
        self._frames.append((frame, answered or 1))
        self._waiting += answered or 1
        self._unanswered -= answered
        self._ready.set()
        self._progress.set()

    @property
    def is_open(self) -> bool:
        """Whether less than the window is unanswered, or answered and not sent."""
        return self._unanswered + self._waiting < PUBLISH_WINDOW

    async def window(self) -> None:
        """Wait until the window is open, or the producer is gone."""
        await self._until(lambda: self.is_open)

    async def settled(self) -> None:
        """Wait until everything is answered and sent; a producer that does not read is not waited for long."""
        await self._until(lambda: not self._unanswered)
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._until(lambda: not self._frames)

    async def sent(self) -> None:
        """Wait until everything is answered and sent, or the producer is gone."""
        await self._until(lambda: not self._unanswered and not self._frames)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._gone:
            self._progress.clear()
            await self._progress.wait()

    async def send(self, line: WayOut) -> None:
        """Send what is queued, all of it in one write, for as long as the producer is there."""
        try:
            while True:
                await self._ready.wait()
                self._ready.clear()
                while self._frames:
                    await self._send_some(line)
                self._progress.set()
        except ConnectionError:
            line.cut()
        finally:
            self._gone = True
            self._progress.set()

    async def _send_some(self, line: WayOut) -> None:
        """Send as much as one write may be. What is being sent still counts against the window."""
        frames: list[bytes] = []
        size = 0
        while len(frames) < len(self._frames) and size < WRITE_BYTES_MAX:
            frames.append(self._frames[len(frames)][0])
            size += len(frames[-1])
        await line.send(frames)
        for _ in frames:
            self._waiting -= self._frames.popleft()[1]

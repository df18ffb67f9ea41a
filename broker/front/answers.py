"""The answers that wait for one producer: in order, those of one group commit in one write."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from broker.deliveries.framing import framed
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
        self._taken = 0
        """How many of them were taken to be sent now."""
        self._gone = False
        self._tell: Callable[[], None] | None = None
        """Tells who sends that an answer waits; None for a call of gRPC."""
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
        if self._tell is not None:
            self._tell()
        else:
            self._ready.set()
        self._progress.set()

    @property
    def is_open(self) -> bool:
        """Whether less than the window is unanswered, or answered and not sent."""
        return self._unanswered + self._waiting < PUBLISH_WINDOW

    @property
    def room(self) -> int:
        """How many events more fit the window; all when the producer is gone, and waits for no answer."""
        return PUBLISH_WINDOW if self._gone else max(0, PUBLISH_WINDOW - self._unanswered - self._waiting)

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

    # For a socket: what `Sender` asks for.

    def on_ready(self, tell: Callable[[], None]) -> None:
        """Let somebody know of every answer."""
        self._tell = tell

    def take_now(self) -> bytes:
        """The next answers, as many as one write may have; those that were taken before have left."""
        self._sent()
        frames = self._next()
        self._taken = len(frames)
        if not frames:
            self._progress.set()
            return b""
        return framed(frames)

    def end(self) -> None:
        """Nobody reads the answers any more."""
        self._gone = True
        self._progress.set()

    # For a call of gRPC, which takes a message at a time.

    async def send(self, line: WayOut) -> None:
        """Send what is queued, for as long as the producer is there."""
        try:
            while True:
                await self._ready.wait()
                self._ready.clear()
                while frames := self._next():
                    await line.send(frames)
                    self._taken = len(frames)
                    self._sent()
                self._progress.set()
        except ConnectionError:
            line.cut()
        finally:
            self.end()

    def _next(self) -> list[bytes]:
        """As much as one write may be. What is being sent still counts against the window."""
        frames: list[bytes] = []
        size = 0
        for frame, _answered in self._frames:
            if size >= WRITE_BYTES_MAX:
                break
            frames.append(frame)
            size += len(frame)
        return frames

    def _sent(self) -> None:
        for _ in range(self._taken):
            self._waiting -= self._frames.popleft()[1]
        self._taken = 0

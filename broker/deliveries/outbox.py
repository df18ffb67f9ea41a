"""The deliveries that wait for one reader, gathered so that one wake-up sends them all."""

import asyncio
from collections import deque

from broker.streams.entry import Entry


class DeliveryQueue:
    """A subscriber that keeps what it is given until a sender takes it. Bounded by the credit it was granted."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Entry, int]] = deque()
        self._ready = asyncio.Event()

    def deliver(self, entry: Entry) -> None:
        """Take one leased event, and remember the attempt: it may be another's by the time this one is sent."""
        self._waiting.append((entry, entry.attempt))
        self._ready.set()

    async def wait(self) -> None:
        """Wait until there is something to send."""
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()

    def take(self, count: int = 1, bytes_max: int = 0) -> list[tuple[Entry, int]]:
        """The next deliveries, each with its attempt: at most `count`, and no more once `bytes_max` is reached."""
        taken: list[tuple[Entry, int]] = []
        size = 0
        while self._waiting and len(taken) < count and (not taken or size < bytes_max):
            taken.append(self._waiting.popleft())
            size += len(taken[-1][0].envelope)
        return taken

    def unsent(self) -> set[Entry]:
        """The events that nobody took: their reader cannot have seen this delivery of them."""
        return {entry for entry, attempt in self._waiting if entry.attempt == attempt}

"""The deliveries that wait for one reader, gathered so that one wake-up sends them all."""

import asyncio

from broker.streams.entry import Entry


class DeliveryQueue:
    """A subscriber that keeps what it is given until a sender takes it. Bounded by the credit it was granted."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Entry, int]] = []
        self._ready = asyncio.Event()

    def deliver(self, entry: Entry) -> None:
        """Take one leased event, and remember the attempt: it may be another's by the time this one is sent."""
        self._waiting.append((entry, entry.attempt))
        self._ready.set()

    async def take(self) -> list[tuple[Entry, int]]:
        """Wait until there is something, and take all of it, in order, each with its attempt."""
        await self._ready.wait()
        self._ready.clear()
        taken, self._waiting = self._waiting, []
        return taken

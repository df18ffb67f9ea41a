"""Frames that have come and are not committed yet: a bound on their number and bytes, past which nothing is read."""

import asyncio

from broker.limits import SOURCE_BATCH_BYTES_MAX, SOURCE_BATCH_ITEMS_MAX


class Frames:
    """Between the task that reads and the task that commits."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._has_ended = False

    @property
    def is_full(self) -> bool:
        """Whether the next frame has to wait."""
        return len(self._frames) >= SOURCE_BATCH_ITEMS_MAX or self._bytes >= SOURCE_BATCH_BYTES_MAX

    async def put(self, frame: bytes) -> None:
        """Add a frame, as soon as there is room."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()
        self._frames.append(frame)
        self._bytes += len(frame)
        self._changed.set()

    def end(self) -> None:
        """No more will come."""
        self._has_ended = True
        self._changed.set()

    async def take(self) -> list[bytes]:
        """All that have come, at least one; none when no more will come."""
        while not self._frames and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        taken, self._frames, self._bytes = self._frames, [], 0
        self._room.set()
        return taken

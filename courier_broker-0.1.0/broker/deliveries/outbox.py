"""What waits for one reader: deliveries and answers, framed so that one wake-up sends them in one write.

A chunk is taken when the one before has left. So a reader that does not read costs one chunk and what it was
leased, and what was never sent is known when it goes away.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

from broker.deliveries.framing import text_frame_head
from broker.limits import WRITE_BYTES_MAX
from broker.streams.entry import Entry

Delivery = tuple[Entry, int]
"""A leased event, and the attempt that it was: it may be another's by the time this one is sent."""


class DeliveryQueue:
    """A subscriber that keeps what it is given until a sender takes it. Bounded by the credit it was granted."""

    def __init__(self, batch: int | None = None) -> None:
        self._batch = batch
        self._waiting: deque[Delivery | bytes] = deque()
        self._taken: list[tuple[int, Delivery]] = []
        self._taken_bytes = 0
        self._answers = 0
        self._ended = False
        self._ready = asyncio.Event()
        self._answered = asyncio.Event()

    def deliver(self, entry: Entry) -> None:
        """Take one leased event."""
        self._waiting.append((entry, entry.attempt))
        entry.unsent = True
        self._ready.set()

    def answer(self, text: bytes) -> None:
        """Take the answer to a control frame; it keeps its place among the deliveries."""
        self._waiting.append(text)
        self._answers += 1
        self._ready.set()

    async def answered(self) -> None:
        """Wait until no answer waits, or nobody sends any more: who provokes answers must read them."""
        while self._answers and not self._ended:
            self._answered.clear()
            await self._answered.wait()

    def end(self) -> None:
        """Nobody sends any more."""
        self._ended = True
        self._answered.set()

    async def take(self) -> bytes:
        """Wait until there is something, and take it in order as frames: all of it, or as much as one write may be.

        Whoever takes says that what was taken before has left.
        """
        self._taken.clear()
        self._taken_bytes = 0
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        parts: list[bytes] = []
        while self._waiting and self._taken_bytes < WRITE_BYTES_MAX:
            self._take_frame(parts)
        return b"".join(parts)

    def unsent(self, stuck_bytes: int) -> set[Entry]:
        """What its reader cannot have: all that waits, and what was taken and ends in the bytes that never left."""
        left_bytes = self._taken_bytes - stuck_bytes
        return {entry for entry, attempt in self._held_back(left_bytes) if entry.attempt == attempt}

    def _held_back(self, left_bytes: int) -> Iterator[Delivery]:
        yield from (delivery for end, delivery in self._taken if end > left_bytes)
        yield from (item for item in self._waiting if not isinstance(item, bytes))

    def _take_frame(self, parts: list[bytes]) -> None:
        first = self._waiting.popleft()
        if isinstance(first, bytes):
            self._answers -= 1
            self._answered.set()
            self._add(parts, first, [])
            return
        deliveries = [first]
        if self._batch is None:
            entry, attempt = first
            text = b'{"deliver":%b,"attempt":%d,"seq":%d}' % (entry.envelope, attempt, entry.seq)
        else:
            size = len(first[0].envelope)
            while self._waiting and len(deliveries) < self._batch and self._taken_bytes + size < WRITE_BYTES_MAX:
                following = self._waiting[0]
                if isinstance(following, bytes):
                    break
                deliveries.append(following)
                size += len(following[0].envelope)
                self._waiting.popleft()
            text = b'{"deliver":[%b]}' % b",".join(
                b'{"envelope":%b,"attempt":%d,"seq":%d}' % (entry.envelope, attempt, entry.seq)
                for entry, attempt in deliveries
            )
        self._add(parts, text, deliveries)

    def _add(self, parts: list[bytes], text: bytes, deliveries: list[Delivery]) -> None:
        head = text_frame_head(len(text))
        parts += (head, text)
        self._taken_bytes += len(head) + len(text)
        for delivery in deliveries:
            delivery[0].unsent = False
            self._taken.append((self._taken_bytes, delivery))

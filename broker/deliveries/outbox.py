"""What waits for one reader: deliveries and answers, framed so that one wake-up sends them in one write.

A chunk is taken when the one before has left. So a reader that does not read costs one chunk and what it was
leased, and what was never sent is known when it goes away.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from _fast import delivery_frames, waiting_of
from broker.deliveries.framing import text_frame_head
from broker.limits import WRITE_BYTES_MAX
from broker.streams.entry import Entry

Delivery = tuple[Entry, int]
"""A leased event, and the attempt that it was: it may be another's by the time this one is sent."""


def _nobody() -> None:
    """Nobody sends yet; who begins to, looks at what waits."""


class DeliveryQueue:
    """A subscriber that keeps what it is given until a sender takes it. Bounded by the credit it was granted."""

    def __init__(self, batch: int | None = None) -> None:
        self._batch = batch or 0
        self._waiting: deque[list[Delivery] | bytes] = deque()
        """Deliveries in a row, and answers between them."""
        self._taken: list[tuple[list[Delivery], list[int]]] = []
        """What was taken, and where the frame of each ends."""
        self._taken_bytes = 0
        self._answers = 0
        self._ended = False
        self._tell: Callable[[], None] = _nobody
        """Tells who sends that something waits."""
        self._answered = asyncio.Event()

    def on_ready(self, tell: Callable[[], None]) -> None:
        """Let somebody know whenever something waits, from now on."""
        self._tell = tell

    def deliver(self, entries: list[Entry]) -> None:
        """Take leased events."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, list):
            last += waiting_of(entries)
        else:
            self._waiting.append(waiting_of(entries))
        self._tell()

    def answer(self, text: bytes) -> None:
        """Take the answer to a control frame; it keeps its place among the deliveries."""
        self._waiting.append(text)
        self._answers += 1
        self._tell()

    @property
    def has_answers(self) -> bool:
        """Whether answers wait for a reader that is still there."""
        return self._answers > 0 and not self._ended

    async def answered(self) -> None:
        """Wait until no answer waits, or nobody sends any more: who provokes answers must read them."""
        while self.has_answers:
            self._answered.clear()
            await self._answered.wait()

    def end(self) -> None:
        """Nobody sends any more."""
        self._ended = True
        self._answered.set()

    def take_now(self) -> bytes:
        """What waits, in order as frames: all of it, or as much as one write may be; nothing if nothing waits.

        Whoever takes says that what was taken before has left.
        """
        self._taken.clear()
        self._taken_bytes = 0
        parts: list[bytes] = []
        while self._waiting and self._taken_bytes < WRITE_BYTES_MAX:
            parts.append(self._take_some())
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def unsent(self, stuck_bytes: int) -> set[Entry]:
        """What its reader cannot have: all that waits, and what was taken and ends in the bytes that never left."""
        left_bytes = self._taken_bytes - stuck_bytes
        return {entry for entry, attempt in self._held_back(left_bytes) if entry.attempt == attempt}

    def _held_back(self, left_bytes: int) -> Iterator[Delivery]:
        for deliveries, ends in self._taken:
            yield from (each for each, end in zip(deliveries, ends, strict=False) if end > left_bytes)
        for item in self._waiting:
            yield from () if isinstance(item, bytes) else item

    def _take_some(self) -> bytes:
        """An answer, or the deliveries before the next one, as many as one write may have."""
        first = self._waiting[0]
        if isinstance(first, bytes):
            self._waiting.popleft()
            self._answers -= 1
            self._answered.set()
            frames = text_frame_head(len(first)) + first
        else:
            frames, ends = delivery_frames(first, self._batch, WRITE_BYTES_MAX - self._taken_bytes)
            self._taken.append((first, [self._taken_bytes + end for end in ends] if self._taken_bytes else ends))
            if len(ends) == len(first):
                self._waiting.popleft()
            else:
                self._waiting[0] = first[len(ends) :]
        self._taken_bytes += len(frames)
        return frames

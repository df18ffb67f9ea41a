"""Those who follow new events without consuming them, and what waits for each.

A follower is told of an event after its commit and never asked. What it does not read waits in a bounded queue;
past the bound, events are counted instead of kept, and the count stands where they would have been. So a
slow follower costs a bounded amount of memory, and nobody waits for it. Rejected: a lease for each, which would
make looking at a stream take from its consumers.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from broker.contracts.inbound import InboundEvent
from broker.contracts.names import pattern_matches
from broker.deliveries.framing import text_frame_head
from broker.errors import OverQuota
from broker.limits import FOLLOWERS_MAX, TAIL_WAITING_BYTES_MAX, TAIL_WAITING_MAX, WRITE_BYTES_MAX
from broker.streams.entry import MEMORY_SEQ_FIRST


class Seen(NamedTuple):
    """An event that a follower is shown. `envelope` is None when nothing of it can be shown any more."""

    seq: int
    stream: str
    envelope: bytes | None

    def as_frame(self) -> bytes:
        """The event as a WebSocket frame. The name of a stream has no character that JSON would escape."""
        text = b'{"stream":"%b","seq":%d,"envelope":%b}' % (self.stream.encode(), self.seq, self.envelope or b"null")
        return text_frame_head(len(text)) + text


def _missed_frame(count: int) -> bytes:
    text = b'{"missed":%d}' % count
    return text_frame_head(len(text)) + text


class TailQueue:
    """What waits for one follower.

    While it catches up with the ledger, an event of the ledger that finds no room is not missed: the next page has it.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._waiting: deque[Seen | int] = deque()
        """Events, and between them how many were missed there."""
        self._events = 0
        self._bytes = 0
        self._after_seq = 0
        self._catching_up = False
        self._overflowed = False
        self._ready = asyncio.Event()

    def offer(self, seq: int, event: InboundEvent) -> None:
        """Take a new event, or count it as missed."""
        if seq <= self._after_seq:
            return
        size = len(event.envelope)
        if self._events < TAIL_WAITING_MAX and self._bytes + size <= TAIL_WAITING_BYTES_MAX:
            self._waiting.append(Seen(seq, event.stream, event.envelope))
            self._events += 1
            self._bytes += size
        elif self._catching_up and seq < MEMORY_SEQ_FIRST:
            self._overflowed = True
        elif self._waiting and isinstance(missed := self._waiting[-1], int):
            self._waiting[-1] = missed + 1
        else:
            self._waiting.append(1)
        self._ready.set()

    async def take(self) -> bytes:
        """Wait until there is something, and take it in order as frames: all of it, or as much as one write may be."""
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        frames: list[bytes] = []
        size = 0
        while self._waiting and size < WRITE_BYTES_MAX:
            item = self._waiting.popleft()
            if isinstance(item, int):
                frames.append(_missed_frame(item))
            else:
                self._forget(item)
                frames.append(item.as_frame())
            size += len(frames[-1])
        return b"".join(frames)

    def before_page(self) -> None:
        """A page of the ledger is about to be read: keep what comes from now on, and forget what the page will have."""
        self._catching_up, self._overflowed = True, False
        self._drop_ledger_up_to(MEMORY_SEQ_FIRST - 1)

    def after_last_page(self, seq: int) -> bool:
        """The ledger was read up to here, its end: go on from there. False when more came than was kept."""
        if self._overflowed:
            return False
        self._drop_ledger_up_to(seq)
        self._after_seq = seq
        self._catching_up = False
        return True

    def _drop_ledger_up_to(self, seq: int) -> None:
        kept: deque[Seen | int] = deque()
        for item in self._waiting:
            if isinstance(item, int) or item.seq > seq:
                kept.append(item)
            else:
                self._forget(item)
        self._waiting = kept

    def _forget(self, item: Seen) -> None:
        self._events -= 1
        self._bytes -= len(item.envelope or b"")


class Tails:
    """Every follower."""

    def __init__(self) -> None:
        self._queues: set[TailQueue] = set()

    @contextmanager
    def follow(self, pattern: str) -> Iterator[TailQueue]:
        """A queue that gets the new events of every stream of a pattern, until the block ends.

        Raise OverQuota when there are as many followers as there may be.
        """
        if len(self._queues) >= FOLLOWERS_MAX:
            raise OverQuota(f"{FOLLOWERS_MAX} connections follow streams already; end one, and try again")
        queue = TailQueue(pattern)
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    @property
    def is_followed(self) -> bool:
        """Whether there is a follower."""
        return bool(self._queues)

    def show(self, events: Iterable[tuple[int, InboundEvent]]) -> None:
        """Tell the followers of new events, in order."""
        if not self._queues:
            return
        following: dict[str, list[TailQueue]] = {}
        for seq, event in events:
            queues = following.get(event.stream)
            if queues is None:
                queues = [queue for queue in self._queues if pattern_matches(queue.pattern, event.stream)]
                following[event.stream] = queues
            for queue in queues:
                queue.offer(seq, event)

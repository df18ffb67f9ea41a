"""The frames of one producer that came together, on their way to the journal as few submissions.

A producer that sends one event a frame fills the socket with hundreds of them before the loop comes round. Each as a
submission of its own would cost a callback and an answer for each. What waits is bounded: past the bound, or while
the ingest queue is full, the socket is not read any more. Only frames of one kind (`Gate.kind_of`) go together, and in
their order, so that nothing comes of it that would not come of each by itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError
from broker.limits import GATHERED_BYTES_MAX, GATHERED_EVENTS_MAX

log = logging.getLogger(__name__)

Submit = Callable[[list[InboundEvent], Callable[[Any], None]], None]
"""Hands events to the journal, and says to whom the outcome goes; raises CourierError when it takes none."""

Answer = Callable[[list[InboundEvent], Any], None]
"""Answers events with their receipts, or with the error that they share."""


class _Group:
    """Events of frames that go together."""

    __slots__ = ("bytes", "events", "kind")

    def __init__(self, events: list[InboundEvent], size: int, kind: bool | None) -> None:
        self.events = events
        self.bytes = size
        self.kind = kind


class Gathering:
    """What one producer has sent and the journal has not been given yet."""

    def __init__(self, submit: Submit, room: Callable[[int], Awaitable[None]], answer: Answer, chunk_max: int) -> None:
        self._submit = submit
        self._room = room
        self._answer = answer
        self._chunk_max = max(1, min(GATHERED_EVENTS_MAX, chunk_max))
        self._groups: deque[_Group] = deque()
        self._handing_over = False
        self._events = 0
        self._bytes = 0
        self._ready = asyncio.Event()
        self._progress = asyncio.Event()

    def add(self, events: list[InboundEvent], size: int, kind: bool | None) -> None:
        """Take the events of one frame of so many bytes, whole. Frames of one kind may go together; those of None not.

        The list is the gathering's own from here on.
        """
        last = self._groups[-1] if self._groups else None
        if last is None or kind is None or last.kind is not kind or len(last.events) + len(events) > self._chunk_max:
            self._groups.append(_Group(events, size, kind))
            self._ready.set()
        else:
            last.events += events
            last.bytes += size
        self._events += len(events)
        self._bytes += size

    @property
    def is_full(self) -> bool:
        """Whether no more should be taken now."""
        return self._events >= self._chunk_max or self._bytes >= GATHERED_BYTES_MAX

    async def taken(self) -> None:
        """Wait until more may be taken."""
        while self.is_full:
            await self._wait()

    async def end(self) -> None:
        """Wait until the journal has been given everything."""
        while self._groups or self._handing_over:
            await self._wait()

    async def _wait(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    async def run(self) -> None:
        """Hand over what has gathered, for as long as the producer is there."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self._groups:
                await self._hand_over()

    async def _hand_over(self) -> None:
        group = self._groups.popleft()
        events = group.events
        self._events -= len(events)
        self._bytes -= group.bytes
        self._handing_over = True
        try:
            await self._room(len(events))
            self._submit(events, lambda outcome: self._answer(events, outcome))
        except CourierError as error:
            self._answer(events, error)
        except Exception:
            log.exception("%d events could not be handed to the journal", len(events))
            self._answer(events, CourierError("the broker met an error of its own; its log has the details"))
        self._handing_over = False
        self._progress.set()

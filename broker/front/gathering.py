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

    def __init__(
        self,
        submit: Submit,
        has_room: Callable[[int], bool],
        room: Callable[[int], Awaitable[None]],
        answer: Answer,
        chunk_max: int,
    ) -> None:
        self._submit = submit
        self._has_room = has_room
        self._room = room
        self._answer = answer
        self.chunk_max = max(1, min(GATHERED_EVENTS_MAX, chunk_max))
        """How many events go together at most, but for those of one frame."""
        self._groups: deque[_Group] = deque()
        self._events = 0
        self._bytes = 0
        self._waiting: asyncio.Task[None] | None = None
        """Waits for room, if there is none."""
        self._progress = asyncio.Event()

    def add(self, events: list[InboundEvent], size: int, kind: bool | None) -> None:
        """Take the events of whole frames with so many bytes. Frames of one kind may go together; those of None not.

        The list is the gathering's own from here on.
        """
        last = self._groups[-1] if self._groups else None
        if last is None or kind is None or last.kind is not kind or len(last.events) + len(events) > self.chunk_max:
            self._groups.append(_Group(events, size, kind))
        else:
            last.events += events
            last.bytes += size
        self._events += len(events)
        self._bytes += size

    @property
    def is_full(self) -> bool:
        """Whether no more should be taken now."""
        return self._events >= self.chunk_max or self._bytes >= GATHERED_BYTES_MAX

    async def taken(self) -> None:
        """Wait until more may be taken."""
        while self.is_full:
            await self._wait()

    async def end(self) -> None:
        """Give the journal everything, and wait until it has it."""
        self.hand_over()
        while self._groups or self._waiting is not None:
            await self._wait()

    async def _wait(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def hand_over(self) -> None:
        """Give the journal what has gathered: at once if it has room for it, else as soon as it has."""
        while self._groups and self._waiting is None:
            if not self._has_room(len(self._groups[0].events)):
                self._waiting = asyncio.get_running_loop().create_task(self._hand_over_with_room())
                return
            self._hand_over_one()

    async def _hand_over_with_room(self) -> None:
        while self._groups:
            try:
                await self._room(len(self._groups[0].events))
            except CourierError as error:
                self._answer(self._pop().events, error)
            else:
                self._hand_over_one()
            self._progress.set()
        self._waiting = None
        self._progress.set()

    def _pop(self) -> _Group:
        group = self._groups.popleft()
        self._events -= len(group.events)
        self._bytes -= group.bytes
        return group

    def _hand_over_one(self) -> None:
        events = self._pop().events
        try:
            self._submit(events, lambda outcome: self._answer(events, outcome))
        except CourierError as error:
            self._answer(events, error)
        except Exception:
            log.exception("%d events could not be handed to the journal", len(events))
            self._answer(events, CourierError("the broker met an error of its own; its log has the details"))

    async def close(self) -> None:
        """Hand nothing over any more, whoever still asks for it."""
        self._groups.clear()
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)

"""Sends what waits for one peer, all of it in one write, at the speed of the peer.

What comes is sent by the step of the loop that follows, without a task that wakes up for it: at a few events a commit,
waking one up cost as much as all else that was done for them. Only when the kernel does not take everything, a task
waits until it has, and nothing more is taken meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from broker.front.line import Line

log = logging.getLogger(__name__)


class Outgoing(Protocol):
    """What waits for one peer."""

    def on_ready(self, tell: Callable[[], None]) -> None:
        """Call this whenever something waits, from now on."""

    def take_now(self) -> bytes:
        """As much of it as one write may be, as whole frames; nothing if nothing waits.

        Whoever takes says that what was taken before has left.
        """

    def end(self) -> None:
        """Nobody sends any more."""


class Sender:
    """Sends to one line what waits for it."""

    def __init__(self, line: Line, outgoing: Outgoing) -> None:
        self._line = line
        self._outgoing = outgoing
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self._waiting: asyncio.Task[None] | None = None
        self._ended = False
        outgoing.on_ready(self.soon)
        self.soon()

    def soon(self) -> None:
        """Something waits to be sent."""
        if not self._is_due and self._waiting is None and not self._ended:
            self._is_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        if self._ended:
            return
        try:
            while frames := self._outgoing.take_now():
                if not self._line.write_now(frames):
                    self._waiting = self._loop.create_task(self._send_on())
                    return
        except ConnectionError:
            self._cut()
        except Exception:
            log.exception("what waits for a peer cannot be sent")
            self._line.fail()
            self._end()

    async def _send_on(self) -> None:
        """Wait until the last write has left, and go on."""
        try:
            await self._line.left()
        except ConnectionError:
            self._cut()
            return
        self._waiting = None
        self._send()

    def _cut(self) -> None:
        self._line.cut()
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._outgoing.end()

    async def end(self) -> None:
        """Send no more."""
        self._ended = True
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
        self._outgoing.end()

"""A connection of aiohttp whose plain requests go past it, while it waits for one.

It steps in only where nothing of aiohttp's is under way: its handler waits for a request, and its parser has been given
whole requests and nothing more. The first is `RequestHandler._waiter`, which is there and not done just then. The
second aiohttp does not tell, so the bytes that it is given are counted here; where their frame is not plain to see,
the connection is aiohttp's for good. A guess would let a client hide a request in the body of another.

What is leaned on in aiohttp is held by `tests/front/test_quick_connection.py`, and `pyproject.toml` names the versions.
"""

from typing import Any

from _fast import bytes_owed
from broker.front.connections import Connection, Connections
from broker.front.quick_lane import QuickLane


class QuickConnection(Connection):
    """A connection with one request of the quick lane under way at most."""

    __slots__ = ("_held", "_lane", "_owed", "_quick")

    def __init__(self, lane: QuickLane, connections: Connections, server: Any, **options: Any) -> None:
        super().__init__(connections, server, **options)
        self._lane = lane
        self._quick = False
        """Whether a request is under way that aiohttp does not know of."""
        self._held = b""
        """What came behind it."""
        self._owed = 0
        """How many bytes aiohttp's parser must be given until the next one begins a request; -1 when nobody knows."""

    def data_received(self, data: bytes) -> None:
        """Take a request the quick way, or leave it to aiohttp."""
        if self._quick:
            self._hold(data)
            return
        if self._owed == 0 and data:
            waiter = self._waiter
            if (
                waiter is not None
                and not waiter.done()
                and not self._paused  # a client that reads no answers is aiohttp's, which waits for it
                and not self._buffer_paused
                and not self._reading_paused
                and self._lane.take(self, data, self._loop.call_soon)
            ):
                self._quick = True
                return
        if self._owed >= 0:
            self._owed = bytes_owed(data, self._owed)
        super().data_received(data)

    def answered(self, answer: bytes) -> None:
        """Write the answer of the request that is under way, and be idle again."""
        self._quick = False
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.write(answer)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)
        if self._held:
            self._quick = True  # until what was held is on its way
            self._loop.call_soon(self._go_on)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget what nobody waits for any more."""
        self._held = b""
        super().connection_lost(exc)

    def _process_keepalive(self) -> None:
        """A connection with a request under way is not idle; its answer sets the timer again."""
        if self._quick:
            self._keepalive_handle = None
        else:
            super()._process_keepalive()

    def _hold(self, data: bytes) -> None:
        """Keep what came too early, and read no more: at most what the loop has read already."""
        self._held += data
        if self._held and not self._buffer_paused:
            self._pause_reading_for_buffer()

    def _go_on(self) -> None:
        self._quick = False
        if self.transport is None:
            return
        held, self._held = self._held, b""
        self._resume_reading_for_buffer()
        self.data_received(held)

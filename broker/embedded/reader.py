"""`async with broker.subscribe(…) as reader: async for delivery in reader: …`."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Literal

from _fast import Ring, entries_handed, hand_out, still_held
from broker.embedded.delivery import Delivery
from broker.embedded.tap import Tap, check_group, check_pattern, check_window
from broker.embedded.turns import Turns
from broker.errors import InvalidRequest, LeaseNotHeld, StorageFailed
from broker.limits import READER_CREDIT_DEFAULT
from broker.streams.entry import Entry
from broker.streams.registry import Registry
from broker.streams.subscription import Subscription

log = logging.getLogger(__name__)

Ack = Literal["manual", "auto"]


class Reader:
    """Takes the events of a stream, or of the streams of a pattern, inside an `async with` block.

    `credit` is how many events it may have that it has not asked beyond. With `ack="auto"`, a delivery is acked
    when the next one is asked for, or the block is left without an exception; with an exception it goes back, as
    does everything else that is still held. Such a reader is for one task; others may be shared by several.
    A reader of a `group` takes from the group's own copy of the streams, which begins at the start of the ledger
    if `from_start`, else now.
    """

    def __init__(
        self,
        registry: Registry,
        pattern: str,
        *,
        credit: int = READER_CREDIT_DEFAULT,
        ack: Ack = "manual",
        group: str | None = None,
        from_start: bool = True,
        on_end: Callable[["Reader"], None] = lambda _reader: None,
        on_start: Callable[["Reader"], None] = lambda _reader: None,
    ) -> None:
        check_pattern(pattern)
        check_window("credit", credit)
        check_group(group)
        if ack not in ("manual", "auto"):
            raise InvalidRequest(f'ack must be "manual" or "auto", not {ack!r}')
        self._registry = registry
        self._pattern = pattern
        self._credit = credit
        self._group = group
        self._from_start = from_start
        self._auto = ack == "auto"
        self._on_start = on_start
        self._on_end = on_end
        self._tap: Tap | None = None
        self._arrived: Ring[Delivery] = Ring(credit)
        """What was delivered and is not taken yet, which is no more than the credit."""
        self._ready = asyncio.Event()
        self._asked_beyond: list[Delivery] = []
        """With automatic acks: what was handed out and is acked when more is asked for."""
        self._handed_out = 0
        self._turns = Turns()
        self._ended = False
        self._failure: str | None = None

    # The block.

    async def __aenter__(self) -> "Reader":
        """Join. Raise UnknownStream or OverQuota if there is no such stream and none may be made."""
        if self._tap is not None or self._ended:
            raise RuntimeError("a reader is for one block; subscribe again for another")
        if self._group is not None:
            await self._registry.join_group(self._pattern, self._group, from_start=self._from_start)
        self._on_start(self)
        self._tap = Tap(self._registry, self._pattern, self._credit, self, self._group)
        self._tap.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self._ended:
            self._ack_handed_out()
        self.end()

    def end(self, failure: str | None = None) -> None:
        """Leave: what is held goes back, and whoever waits for a delivery is told that none will come."""
        if self._ended:
            return
        self._ended = True
        self._failure = failure
        self._ready.set()
        if self._tap is not None:
            unread = still_held(self._take_off(len(self._arrived)))
            self._tap.leave(set(entries_handed(unread)))
        self._on_end(self)

    # Deliveries.

    def deliver(self, entries: list[Entry]) -> None:
        """Take leased events from the streams."""
        tap = self._entered()
        taken = self._arrived.push_many(hand_out(Delivery, tap, tap.place, entries))
        assert taken == len(entries), "no more is delivered than there is credit for"
        self._ready.set()

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> Delivery:
        taken = await self.take(1)
        if not taken:
            raise StopAsyncIteration
        return taken[0]

    async def take(self, limit: int) -> list[Delivery]:
        """The next deliveries: those that are there, or the next one that comes; none when the broker was closed.

        Raise StorageFailed when the journal has failed, after which nothing that is acked can be kept.
        """
        if limit < 1:
            raise InvalidRequest(f"limit must be at least 1, not {limit}")
        tap = self._entered()
        if not self._ended:
            self._ack_handed_out()
            tap.consumed(self._handed_out)
        handed_out, self._handed_out = self._handed_out, 0
        if self._turns.is_over(handed_out):
            await self._turns.pause()
        while not self._ended:
            if taken := self._take_arrived(tap, limit):
                return taken
            self._ready.clear()
            await self._ready.wait()
        if self._failure is not None:
            raise StorageFailed(self._failure)
        return []

    def batches(self, limit: int) -> AsyncIterator[list[Delivery]]:
        """The deliveries as lists of up to `limit`: what is there at once, never empty."""
        return _Batches(self, limit)

    async def ack_many(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Ack all of them; those that were not held any more, and will come again."""
        return self._settle(list(deliveries))

    def _settle(self, deliveries: list[Delivery]) -> list[Delivery]:
        lost = None if self._tap is None else self._tap.ack_handed(deliveries)
        if lost is not None:
            return lost
        lost = []
        for delivery in deliveries:  # some are those of another reader
            try:
                delivery.settle()
            except LeaseNotHeld:
                lost.append(delivery)
        return lost

    def _entered(self) -> Tap:
        if self._tap is None:
            raise RuntimeError("a reader is used inside its block: async with broker.subscribe(…) as reader")
        return self._tap

    def _take_arrived(self, tap: Tap, limit: int) -> list[Delivery]:
        taken: list[Delivery] = []
        while self._arrived and len(taken) < limit:
            arrived = self._take_off(limit - len(taken))
            held = still_held(arrived)
            taken = taken + held if taken else held
            if len(held) < len(arrived):
                tap.consumed(len(arrived) - len(held))
        self._handed_out += len(taken)
        if self._auto:
            self._asked_beyond = taken
        return taken

    def _ack_handed_out(self) -> None:
        if not self._asked_beyond:
            return
        handed_out, self._asked_beyond = self._asked_beyond, []
        for delivery in self._settle([delivery for delivery in handed_out if not delivery.settled]):
            error = Subscription.not_held(delivery.seq)
            log.warning("%r was done, but its ack came too late, and it will come again: %s", delivery, error)

    def _take_off(self, limit: int) -> list[Delivery]:
        arrived = self._arrived.pop_many(limit)
        self._arrived.release(len(arrived))
        return arrived


class _Batches:
    """What `Reader.batches` returns."""

    def __init__(self, reader: Reader, limit: int) -> None:
        self._reader = reader
        self._limit = limit

    def __aiter__(self) -> "_Batches":
        return self

    async def __anext__(self) -> list[Delivery]:
        taken = await self._reader.take(self._limit)
        if not taken:
            raise StopAsyncIteration
        return taken

"""The events of one topic, on their way through its handlers.

             deliver                start                  every handler, in order
    stream ─────────► waiting ───────────────► a task ─┬─► done        all succeeded: ack
                      (leased)                         ├─► later       one may be retried: nack with a delay
                                                       └─► failed      one has no retry left: dead letter

A lane holds as many leases as its window has places, so a topic that is slow takes nothing from another. Its leases
do not run out: the handlers are of this process, and end with it. Rejected: a timer that extends them, which would
wake an idle loop.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Sequence

from broker.bus.event import event_of
from broker.bus.progress import Progress, Retrying
from broker.bus.running import Running
from broker.bus.subscription import Subscription
from broker.bus.tally import Tally
from broker.contracts.bus import stream_of
from broker.streams.entry import Entry
from broker.streams.registry import Registry

log = logging.getLogger(__name__)


class Lane:
    """One topic's place at its stream, with the handlers that its events go through."""

    def __init__(
        self, topic: str, registry: Registry, running: Running, retrying: Retrying, tally: Tally, batch: int
    ) -> None:
        self.topic = topic
        self._registry = registry
        self._running = running
        self._retrying = retrying
        self._tally = tally
        self._batch = batch
        self._handlers: Sequence[Subscription] = ()
        self._slots: dict[Subscription, asyncio.Semaphore] = {}
        self._width = 0
        self._window = 0
        self._waiting: deque[Entry] = deque()
        self._begun: dict[asyncio.Task[None], deque[Subscription]] = {}
        """Each event that is being handled, with the handlers that it has still to go through."""
        self._halted = False
        self._retired = False
        self._place = registry.subscribe(stream_of(topic), self, renews=True)

    def serve(self, handlers: Sequence[Subscription]) -> None:
        """These are its handlers from the next event on. Raise nothing: there is at least one."""
        self._handlers = tuple(handlers)
        kept = {each: slot for each, slot in self._slots.items() if each.claims or each in handlers}
        self._slots = {each: asyncio.Semaphore(each.concurrency) for each in handlers} | kept
        self._width = max(each.concurrency for each in handlers)
        window = max(self._batch, self._width)
        if window > self._window:
            grant, self._window = window - self._window, window
            self._registry.grant(self._place, grant)
        self._start()

    def deliver(self, entries: list[Entry]) -> None:
        """Take leased events from the stream."""
        self._waiting.extend(entries)
        self._start()

    def _start(self) -> None:
        while self._waiting and len(self._begun) < self._width and not self._halted and self._running.take(self._start):
            entry = self._waiting.popleft()
            left: deque[Subscription] = deque()
            self._claim(left)
            name = f"bus {self.topic} {entry.seq}"
            task = asyncio.get_running_loop().create_task(self._handle(entry, left), name=name)
            self._begun[task] = left
            task.add_done_callback(self._ended)

    def _claim(self, left: deque[Subscription]) -> None:
        """Let an event go through the handlers that there are now, and no others."""
        for each in self._handlers:
            each.claim()
        for each in left:
            each.release()
        left.clear()
        left.extend(self._handlers)

    def _ended(self, task: asyncio.Task[None]) -> None:
        for each in self._begun.pop(task):
            each.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an event of topic %s could not be answered", self.topic, exc_info=error)
        if not self._halted:
            self._registry.grant(self._place, 1)
            self._start()
        elif self._retired and not self._begun:
            self.leave()
        self._running.give_back()

    # One event.

    async def _handle(self, entry: Entry, left: deque[Subscription]) -> None:
        self._claim(left)  # since it was begun, handlers may have come: a program subscribes one after the other
        progress = self._retrying.take(entry.seq)
        while left:
            subscription = left[0]
            if not progress.is_through(subscription):
                async with self._slots[subscription]:
                    await self._try(subscription, entry, progress)
            left.popleft().release()
        self._answer(entry, progress)

    async def _try(self, subscription: Subscription, entry: Entry, progress: Progress) -> None:
        task = asyncio.current_task()
        assert task is not None
        limit = asyncio.timeout(subscription.timeout)
        try:
            async with limit:
                result = subscription.handler(event_of(entry))
                if inspect.isawaitable(result):
                    await result
        except asyncio.CancelledError as error:
            if task.cancelling():  # the bus stops; else something inside the handler was cancelled, and not the handler
                raise
            self._failed(subscription, entry, progress, error, "CancelledError: cancelled from within")
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure, and is kept
            text = f"{type(error).__name__}: {error}"
            if limit.expired():
                text = f"TimeoutError: not done after {subscription.timeout} s"
            self._failed(subscription, entry, progress, error, text)
        else:
            progress.succeed(subscription)

    def _failed(
        self, subscription: Subscription, entry: Entry, progress: Progress, error: BaseException, text: str
    ) -> None:
        progress.fail(subscription, text)
        self._tally.errors += 1
        log.error(
            "EventBus: handler failed: subscriber_id=%s event_id=%d topic=%s: %s",
            subscription.subscriber_id,
            entry.seq,
            self.topic,
            text,
            exc_info=error,
        )

    def _answer(self, entry: Entry, progress: Progress) -> None:
        delay = progress.retry_in_seconds
        if not progress.errors:
            self._tally.handled += 1
            self._registry.ack(self._place, entry.seq, entry.attempt)
        elif delay is None or entry.failures >= entry.stream.rules.deliveries_max:
            self._tally.failed += 1
            self._registry.bury(self._place, entry.seq, progress.error, entry.attempt)
        else:
            self._tally.retried += 1
            self._retrying.keep(entry.seq, progress)
            self._registry.nack(self._place, entry.seq, round(delay * 1000), entry.attempt)

    # The end.

    def retire(self) -> None:
        """Its last handler is gone: finish what is being done, then leave."""
        self._retired = True
        if not self.halt():
            self.leave()

    def halt(self) -> list[asyncio.Task[None]]:
        """Begin nothing any more; what is being done."""
        self._halted = True
        return list(self._begun)

    def leave(self) -> None:
        """Give everything back that is not answered. What was not begun does not count as an attempt."""
        unread = set(self._waiting)
        self._waiting.clear()
        self._registry.unsubscribe(self._place, unread)

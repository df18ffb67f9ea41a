"""EventBus: handlers of this process on topics of the journal.

    publish ──────────────► journal ──► stream topics/t ──► lane of t ──► its handlers, in the order of registration
    schedule_at ──► scheduler ──┘

The bus has no queue and no loop of its own. What is published comes back to it from the commit that made it durable.
So an idle bus has nothing to wake up for.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from broker.bus.lane import Lane
from broker.bus.payload import encode
from broker.bus.progress import Retrying
from broker.bus.running import Running
from broker.bus.subscription import Handler, Subscription
from broker.bus.tally import Tally
from broker.bus.topics import is_pattern
from broker.clock import Clock
from broker.config import Bus as BusConfig
from broker.contracts.bus import TOPICS, bus_event, stream_of
from broker.contracts.inbound import InboundEvent
from broker.errors import NotFound, OverQuota
from broker.limits import BUS_CANCEL_SECONDS_MAX, BUS_SUBSCRIPTIONS_MAX
from broker.scheduler.times import When, moment_us
from broker.streams.registry import Registry

log = logging.getLogger(__name__)


class Publish(Protocol):
    """The way through the gate into the journal."""

    def __call__(self, event: InboundEvent) -> Awaitable[int]:
        """Its place in the journal, once it is durable; raise the CourierError that says why it was not taken."""


class Deferring(Protocol):
    """What keeps events until their time."""

    async def put_off(self, event: InboundEvent, fire_at: int) -> int:
        """Keep an event until a time in microseconds since 1970; return the id of that when it is durable."""

    async def cancel(self, deferred_id: int) -> bool:
        """Let an event never happen; False if it was not waiting."""

    async def caught_up(self) -> None:
        """Wait until everything has gone that was due at the start."""


class EventBus:
    """Publishes events, and runs the handlers that subscribed to their topics."""

    def __init__(
        self, registry: Registry, publish: Publish, deferring: Deferring, clock: Clock, config: BusConfig
    ) -> None:
        self._registry = registry
        self._publish = publish
        self._deferring = deferring
        self._clock = clock
        self._config = config
        self._subscriptions: dict[Subscription, None] = {}
        self._lanes: dict[str, Lane] = {}
        self._running = Running(config.max_running)
        self._retrying = Retrying()
        self.tally = Tally()
        self._started = False

    @property
    def running(self) -> int:
        """How many events are being handled."""
        return self._running.taken

    @property
    def subscriptions(self) -> int:
        """How many handlers are subscribed."""
        return len(self._subscriptions)

    def waiting(self) -> dict[str, int]:
        """How many events of each topic wait or are being handled, in the order in which the topics came up."""
        found = {stream.name: stream.pending for stream in self._registry.all() if stream.name.startswith(TOPICS)}
        return {name.removeprefix(TOPICS): pending for name, pending in found.items()}

    # Events in.

    async def publish(self, topic: str, source: str, payload: dict[str, Any], correlation_id: str | None = None) -> int:
        """Publish an event; return its id when it is on disk.

        Raise the CourierError that says why it was not taken. After one whose status is 500 or more, and after a
        cancellation, it may be there or not.
        """
        now = self._clock.wall_us()
        return await self._publish(bus_event(topic, source, encode(payload), correlation_id, _new_id(), now))

    async def schedule_at(
        self, delay: When, topic: str, source: str, payload: dict[str, Any], correlation_id: str | None = None
    ) -> int:
        """Publish an event later; return its deferred id when it is on disk, for `cancel`.

        `delay` is seconds from now, a timedelta, or a datetime with its time zone; one without a zone is refused.
        What is past is due at once. Raise the CourierError that says why it was not taken.
        """
        now = self._clock.wall_us()
        fire_at = moment_us(delay, now)
        event = bus_event(topic, source, encode(payload), correlation_id, _new_id(), now)
        return await self._deferring.put_off(event, fire_at)

    async def cancel(self, deferred_id: int) -> bool:
        """Let a deferred event never happen; False if it has fired, was cancelled before, or is not known."""
        return await self._deferring.cancel(deferred_id)

    # Handlers.

    def subscribe(
        self,
        topic: str,
        handler: Handler,
        *,
        subscriber_id: str,
        retries: int = 0,
        backoff: float = 1.0,
        timeout: float | None = None,
        concurrency: int = 1,
    ) -> Subscription:
        """Let a handler have every event of a topic, or of the topics of a pattern such as `task.*`.

        `retries` is how often it is tried again after it raised, the first time after `backoff` seconds and then after
        twice as long each time; `timeout` is how many seconds it may take, and `concurrency` how many events of
        a topic it may have at once. Events that wait for the topic are its first ones.
        """
        if len(self._subscriptions) >= BUS_SUBSCRIPTIONS_MAX:
            raise OverQuota(f"there are {BUS_SUBSCRIPTIONS_MAX} subscriptions already; no more can be made")
        subscription = Subscription(
            topic, handler, subscriber_id, retries=retries, backoff=backoff, timeout=timeout, concurrency=concurrency
        )
        if not is_pattern(topic):  # not when its lane is made: who is told of a new stream would make another one
            self._registry.open(stream_of(topic))
        self._subscriptions[subscription] = None
        if self._started:
            for each in self._topics_of(subscription):
                self._serve(each)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Give a handler nothing new; raise NotFound if it is not subscribed.

        A topic that is left without one gives its events back; those that are being handled are finished first.
        """
        if subscription not in self._subscriptions:
            raise NotFound(f"{subscription!r} is not subscribed")
        del self._subscriptions[subscription]
        for topic in list(self._lanes):
            if subscription.wants(topic):
                self._serve(topic)

    def _topics_of(self, subscription: Subscription) -> Sequence[str]:
        """The topics that a subscription has now."""
        if not is_pattern(subscription.topic):
            return [subscription.topic]
        names = (name.removeprefix(TOPICS) for name in self._registry.names() if name.startswith(TOPICS))
        return [topic for topic in names if subscription.wants(topic)]

    def _serve(self, topic: str) -> None:
        """Let a topic have the handlers that want it."""
        handlers = [each for each in self._subscriptions if each.wants(topic)]
        lane = self._lanes.get(topic)
        if handlers and lane is None:
            lane = self._lanes[topic] = Lane(
                topic, self._registry, self._running, self._retrying, self.tally, self._config.batch
            )
        if lane is None:
            return
        if handlers:
            lane.serve(handlers)
        else:
            del self._lanes[topic]
            lane.retire()

    def _stream_made(self, name: str) -> None:
        """A stream has come into being: a pattern may want it."""
        if name.startswith(TOPICS):
            self._serve(name.removeprefix(TOPICS))

    # From start to stop.

    async def recover(self) -> int:
        """How many events the last process left unfinished, those that became due meanwhile included.

        The latter are in the journal then. All are handled as soon as the bus is started.
        """
        await self._deferring.caught_up()
        streams = (self._registry.find(name) for name in self._registry.names() if name.startswith(TOPICS))
        recovered = sum(stream.pending for stream in streams if stream is not None)
        log.info("EventBus: recovered %d events", recovered)
        return recovered

    async def start(self) -> None:
        """Let the handlers have their events."""
        if self._started:
            return
        self._started = True
        self._registry.on_stream = self._stream_made
        for topic in {topic: None for each in self._subscriptions for topic in self._topics_of(each)}:
            self._serve(topic)

    def fail(self) -> None:
        """Begin nothing any more: what a handler would do could not be marked as done."""
        for lane in self._lanes.values():
            lane.halt()

    async def stop(self) -> None:
        """Begin nothing new, wait for what is being handled, and give back what was not done within `bus.stopMs`."""
        if not self._started:
            return
        self._started = False
        self._registry.on_stream = lambda _name: None
        lanes, self._lanes = list(self._lanes.values()), {}
        tasks = [task for lane in lanes for task in lane.halt()]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._config.stop_ms / 1000)
            await _cancelled(tasks)
        finally:
            for lane in lanes:
                lane.leave()


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel what is not done, and see it end; what does not is left behind."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        log.warning("EventBus: %d events were not done in time, and are given back", len(left))
        _, stubborn = await asyncio.wait(left, timeout=BUS_CANCEL_SECONDS_MAX)
        for task in stubborn:
            log.error("EventBus: %s does not end, although it was cancelled", task.get_name())


def _new_id() -> str:
    """An id that nobody else has, and that sorts by time."""
    return f"{time.time_ns():016x}-{os.urandom(4).hex()}"

"""The event bus inside this process: published to handled, with the time of each; and many events put off."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import uvloop

from bench.failure import BenchmarkFailed
from bench.load.drive import Timed, no_collections
from bench.turns import Turn
from broker import Broker
from broker.bus import Event

CALLERS = 100
"""How many publish at once, each waiting for its receipt."""
SCHEDULERS = 1_000
FILLING = "x" * 160


@contextmanager
def bus_inside(directory: Path, topics: int, *, plain: bool = False) -> Iterator[Turn]:
    """A broker with handlers on so many topics; a `plain` function is called, another kind is awaited."""
    with opened(directory) as (runner, broker):

        def turn(first: int, count: int) -> Timed:
            return runner.run(_published(broker, topics, first, count, plain))

        yield turn


@contextmanager
def opened(directory: Path) -> Iterator[tuple[asyncio.Runner, Broker]]:
    """A broker of this process, and what runs its coroutines."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def opened() -> Broker:
            return await Broker.open(directory)

        broker = runner.run(opened())
        try:
            yield runner, broker
        finally:
            runner.run(broker.close())


class Handled:
    """What was handled, and when; `all` is set with the last of it."""

    def __init__(self, expected: int, now: Callable[[], float] = time.perf_counter) -> None:
        self.times: dict[int, float] = {}
        self.all = asyncio.Event()
        self._expected = expected
        self._now = now

    def __call__(self, event: Event) -> None:
        number = event.payload["number"]
        if number in self.times:
            raise BenchmarkFailed(f"event {number} was handled twice")
        self.times[number] = self._now()
        if len(self.times) == self._expected:
            self.all.set()

    async def awaited(self, event: Event) -> None:
        """The same for a handler that is a coroutine."""
        self(event)


async def _published(broker: Broker, topics: int, first: int, count: int, plain: bool) -> Timed:
    handled = Handled(count)
    handler = handled if plain else handled.awaited
    subscriptions = [broker.bus.subscribe(f"bench.{topic}", handler, subscriber_id="bench") for topic in range(topics)]

    async def publish(caller: int) -> None:
        for number in range(first + caller, first + count, CALLERS):
            await broker.bus.publish(f"bench.{number % topics}", "bench", {"number": number, "filling": FILLING})

    with no_collections():
        started = time.perf_counter()
        await asyncio.gather(*(publish(caller) for caller in range(CALLERS)))
        await handled.all.wait()
        seconds = time.perf_counter() - started
    for subscription in subscriptions:
        broker.bus.unsubscribe(subscription)
    if sorted(handled.times) != list(range(first, first + count)):
        raise BenchmarkFailed(f"{count} events were published, and others were handled")
    return Timed(seconds, 0.0)


def published_to_handled(directory: Path, rate: float, count: int) -> list[float]:
    """Seconds from when each publication was due, at this rate, to when its handler ran, in order of size."""

    async def measure(broker: Broker) -> list[float]:
        handled = Handled(count)
        broker.bus.subscribe("bench.latency", handled, subscriber_id="bench")
        start = time.perf_counter() + 0.1

        async def publish(number: int) -> None:
            await broker.bus.publish("bench.latency", "bench", {"number": number, "filling": FILLING})

        with no_collections():
            async with asyncio.TaskGroup() as publishing:
                for number in range(count):
                    if (wait := start + number / rate - time.perf_counter()) > 0:
                        await asyncio.sleep(wait)
                    publishing.create_task(publish(number))
            await handled.all.wait()
        return sorted(when - start - number / rate for number, when in handled.times.items())

    with opened(directory) as (runner, broker):
        return runner.run(measure(broker))


async def schedule(broker: Broker, topic: str, count: int, moment_of: Callable[[int], datetime]) -> None:
    """Put off so many events, each to its moment, by callers who wait for their receipts."""

    async def some(caller: int) -> None:
        for number in range(caller, count, SCHEDULERS):
            await broker.bus.schedule_at(moment_of(number), topic, "bench", {"number": number, "filling": FILLING})

    await asyncio.gather(*(some(caller) for caller in range(min(count, SCHEDULERS))))

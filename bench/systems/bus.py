"""The event bus inside this process: published to handled, scheduled to fired, with the time of each."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
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
    with _opened(directory) as (runner, broker):

        def turn(first: int, count: int) -> Timed:
            return runner.run(_published(broker, topics, first, count, plain))

        yield turn


@contextmanager
def _opened(directory: Path) -> Iterator[tuple[asyncio.Runner, Broker]]:
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

    with _opened(directory) as (runner, broker):
        return runner.run(measure(broker))


def scheduled_to_fired(directory: Path, far: int, due: int, lead_seconds: float) -> tuple[float, list[float]]:
    """Schedule `far` events for tomorrow and `due` for one second soon.

    How many a second could be scheduled, and how late each of the due ones was handled, in order of size.
    """

    async def measure(broker: Broker) -> tuple[float, list[float]]:
        handled = Handled(due, time.time)
        broker.bus.subscribe("bench.due", handled, subscriber_id="bench", concurrency=100)
        started = time.perf_counter()
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        await _schedule(broker, "bench.far", far, lambda number: tomorrow + timedelta(milliseconds=number))
        rate = far / (time.perf_counter() - started)
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=lead_seconds)
        moments = [moment + timedelta(seconds=number / due) for number in range(due)]
        await _schedule(broker, "bench.due", due, lambda number: moments[number])
        if datetime.now(UTC) >= moment:
            raise BenchmarkFailed(f"{lead_seconds} s were too short to schedule {due} events; use more")
        with no_collections():
            await handled.all.wait()
        return rate, sorted(when - moments[number].timestamp() for number, when in handled.times.items())

    with _opened(directory) as (runner, broker):
        return runner.run(measure(broker))


async def _schedule(broker: Broker, topic: str, count: int, moment_of: Callable[[int], datetime]) -> None:
    async def some(caller: int) -> None:
        for number in range(caller, count, SCHEDULERS):
            await broker.bus.schedule_at(moment_of(number), topic, "bench", {"number": number, "filling": FILLING})

    await asyncio.gather(*(some(caller) for caller in range(min(count, SCHEDULERS))))

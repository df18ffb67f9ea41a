"""Events that are put off: scheduled in their number, due together, and what a start costs while they wait.

huey's part is its storage alone, as in `libraries`. What its scheduler does with it once a second is done here without
the wait: what is due is taken out in one transaction, put into the queue one by one, and taken from there so.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from bench.board import seconds_to_ready
from bench.failure import BenchmarkFailed
from bench.load.drive import no_collections
from bench.systems.bus import FILLING, Handled, opened, schedule
from bench.systems.libraries import huey_storage
from broker import Broker

LEAD_SECONDS = 8.0
"""Between the last event that is scheduled and the first that is due: room for the scheduling of those due."""


@dataclass(frozen=True)
class Scheduled:
    """What came of events that were put off."""

    rate: float
    """How many could be scheduled a second."""
    rate_due: float
    """How many of those that were due at one moment were done with a second, from that moment on."""
    late: list[float]
    """How many seconds after its time each was handled, of those due within one second, in order; empty for huey."""


def scheduled_to_fired(directory: Path, far: int, due: int, lead_seconds: float = LEAD_SECONDS) -> Scheduled:
    """Schedule `far` events for tomorrow, then `due` for one second soon, then `due` for one moment."""

    async def fired(broker: Broker, topic: str, spread_seconds: float) -> list[float]:
        """How late each was handled, by its number."""
        handled = Handled(due, time.time)
        broker.bus.subscribe(topic, handled, subscriber_id="bench", concurrency=100)
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=lead_seconds)
        moments = [moment + timedelta(seconds=spread_seconds * number / due) for number in range(due)]
        await schedule(broker, topic, due, lambda number: moments[number])
        if datetime.now(UTC) >= moment:
            raise BenchmarkFailed(f"{lead_seconds} s were too short to schedule {due} events; use more")
        with no_collections():
            await handled.all.wait()
        return [handled.times[number] - moments[number].timestamp() for number in range(due)]

    async def measure(broker: Broker) -> Scheduled:
        started = time.perf_counter()
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        await schedule(broker, "bench.far", far, lambda number: tomorrow + timedelta(milliseconds=number))
        rate = far / (time.perf_counter() - started)
        late = await fired(broker, "bench.due", 1.0)
        at_once = await fired(broker, "bench.at-once", 0.0)
        early = min((*late, *at_once))
        if early < 0:
            raise BenchmarkFailed(f"an event was handled {-early} s before it was due")
        return Scheduled(rate, due / max(at_once), sorted(late))

    with opened(directory) as (runner, broker):
        return runner.run(measure(broker))


class Storage(Protocol):
    """What is needed of huey's storage."""

    def add_to_schedule(self, data: bytes, ts: datetime) -> None:
        """Put off, and commit."""

    def read_schedule(self, ts: datetime) -> Sequence[bytes]:
        """Take out what is due by then."""

    def enqueue(self, data: bytes) -> None:
        """Put into the queue, and commit."""

    def dequeue(self) -> bytes | None:
        """Take the first one out."""

    def schedule_size(self) -> int:
        """How many are put off."""


def scheduled_in(storage: Storage, far: int, due: int) -> Scheduled:
    """Schedule `far` events for tomorrow and `due` for now, by one caller, and take the latter."""
    now = datetime.now()  # noqa: DTZ005 - huey compares local times without a zone
    texts = [f"{number} {FILLING}".encode() for number in range(far + due)]
    with no_collections():
        started = time.perf_counter()
        for number, text in enumerate(texts[:far]):
            storage.add_to_schedule(text, now + timedelta(days=1, milliseconds=number))
        rate = far / (time.perf_counter() - started)
        for text in texts[far:]:
            storage.add_to_schedule(text, now)
        started = time.perf_counter()
        for text in storage.read_schedule(now):
            storage.enqueue(text)
        taken = []
        while (found := storage.dequeue()) is not None:
            taken.append(bytes(found))
        rate_due = due / (time.perf_counter() - started)
    if taken != texts[far:]:
        raise BenchmarkFailed(f"{due} events were due, and others came out of the queue")
    if storage.schedule_size() != far:
        raise BenchmarkFailed(f"{far} events wait for tomorrow, but {storage.schedule_size()} are in the schedule")
    return Scheduled(rate, rate_due, [])


def scheduled_by_huey(directory: Path, far: int, due: int) -> Scheduled:
    """The same with huey's own storage; raise NotInstalled without it."""
    with huey_storage(directory) as storage:
        return scheduled_in(storage, far, due)


def start_with(directory: Path) -> tuple[float, float]:
    """How many seconds a broker takes from its start to its first `/readyz`, and its memory in MiB then."""
    return seconds_to_ready(directory)

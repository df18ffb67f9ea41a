"""A broker with its bus, on disk or in memory, and handlers that remember."""

import asyncio
from typing import Any

import pytest

from broker import Broker
from broker.bus import Event, EventBus
from broker.clock import ManualClock
from broker.core import DurableCore
from tests.support.writer import PATIENCE_SECONDS, eventually


@pytest.fixture
def bus(broker: Broker) -> EventBus:
    """Its bus."""
    return broker.bus


class Seen:
    """A handler that remembers its events, and can be waited for."""

    def __init__(self, fails: int = 0) -> None:
        self.events: list[Event] = []
        self.fails = fails
        """How many calls are to fail, from the first one on."""
        self.calls = 0
        self._more = asyncio.Event()

    async def __call__(self, event: Event) -> None:
        self.calls += 1
        self.events.append(event)
        self._more.set()
        if self.calls <= self.fails:
            raise ValueError(f"no {self.calls}")

    async def wait(self, count: int) -> list[Event]:
        """Its events, once there are so many."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.events) < count:
                self._more.clear()
                await self._more.wait()
        return self.events

    @property
    def numbers(self) -> list[int]:
        """The `n` of each payload."""
        return [event.payload["n"] for event in self.events]


COLUMNS = "id, topic, source, payload, correlation_id, status, created_at, processed_at, error"


async def journal_row(broker: Broker, event_id: int) -> dict[str, Any]:
    """A row of `event_journal` (004), after everything that was decided so far."""
    core = broker._core
    assert isinstance(core, DurableCore)

    def job(connection: Any) -> Any:
        return connection.execute(f"SELECT {COLUMNS} FROM event_journal WHERE id = ?", (event_id,)).fetchone()

    return dict(zip(COLUMNS.split(", "), await core.journal.execute(job), strict=True))


async def settled(broker: Broker, topic: str) -> None:
    """Wait until nothing of a topic is pending."""
    await eventually(
        lambda: broker.stats(f"topics/{topic}")["depth"] + broker.stats(f"topics/{topic}")["inflight"] == 0
    )


class Gate:
    """A handler that stays in each event until it is let go."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.most = 0
        self.done: list[int] = []
        self.open = asyncio.Event()

    async def __call__(self, event: Event) -> None:
        self.inside.append(event.id)
        self.most = max(self.most, len(self.inside))
        try:
            await self.open.wait()
            self.done.append(event.id)
        finally:
            self.inside.remove(event.id)


def tick(broker: Broker, clock: ManualClock, milliseconds: int) -> None:
    """Let time pass, and the leases with it."""
    clock.advance(milliseconds)
    broker._core.registry.expire()

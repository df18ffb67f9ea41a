"""No polling: an idle bus schedules nothing, and no timer lies between a publish and its handler."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker import Broker
from broker.bus import Event


class Recording(asyncio.SelectorEventLoop):
    """A loop that knows what was scheduled by the bus, and whose timers can be stopped for good."""

    def __init__(self) -> None:
        super().__init__()
        self.timers_fire = True
        self.of_the_bus: list[str] = []

    def _note(self, callback: Callable[..., Any]) -> None:
        function = inspect.unwrap(getattr(callback, "func", callback))
        module = getattr(function, "__module__", None) or ""
        if module.startswith("broker.bus"):
            self.of_the_bus.append(repr(callback))

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """As the loop's own, but with dead timers the time never comes."""
        self._note(callback)
        return super().call_at(when if self.timers_fire else when + 1e6, callback, *args, **options)

    def call_soon(self, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """As the loop's own."""
        self._note(callback)
        return super().call_soon(callback, *args, **options)

    def create_task(self, coro: Any, **options: Any) -> Any:
        """As the loop's own."""
        if "broker/bus/" in coro.cr_code.co_filename:
            self.of_the_bus.append(coro.__qualname__)
        return super().create_task(coro, **options)


@pytest.fixture
def runner() -> Any:
    with asyncio.Runner(loop_factory=Recording) as runner:
        yield runner


def test_a_published_event_is_handled_although_every_timer_is_dead(runner: asyncio.Runner, tmp_path: Path) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Recording)
        async with Broker.open(tmp_path / "data") as broker:
            handled: asyncio.Queue[int] = asyncio.Queue()
            broker.bus.subscribe("task.*", lambda event: handled.put_nowait(event.id), subscriber_id="s")
            loop.timers_fire = False
            for topic in ("task.a", "task.b", "task.a"):
                assert await broker.bus.publish(topic, "ext", {}) == await handled.get()
            loop.timers_fire = True

    runner.run(run())


def test_an_idle_bus_makes_no_wake_ups(runner: asyncio.Runner, tmp_path: Path) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Recording)
        async with Broker.open(tmp_path / "data") as broker:
            handled: asyncio.Queue[Event] = asyncio.Queue()
            for topic in ("alert", "task.*", "**"):
                broker.bus.subscribe(topic, handled.put_nowait, subscriber_id="s")
            await broker.bus.publish("alert", "ext", {})
            for _ in range(2):
                await handled.get()
            await asyncio.sleep(0)
            assert loop.of_the_bus, "the recording sees nothing"
            loop.of_the_bus.clear()
            with suppress(TimeoutError):  # what is counted is what happens while nothing is to happen
                await asyncio.wait_for(asyncio.Event().wait(), 0.3)
            assert loop.of_the_bus == []
            assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("bus ")] == []

    runner.run(run())

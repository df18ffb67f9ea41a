"""No polling: without anything put off there is no timer, and with a million there is one."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from broker import Broker
from broker.limits import SCHEDULE_RECHECK_SECONDS_MAX


class Recording(asyncio.SelectorEventLoop):
    """A loop that remembers the timers of the scheduler."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[float] = []

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """As the loop's own."""
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        if "broker/scheduler/" in frame.f_back.f_code.co_filename:
            self.timers.append(delay)
        return super().call_later(delay, callback, *args, **options)


async def nothing_happens() -> None:
    """A moment in which what would happen by itself does."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.3)


def test_an_idle_scheduler_has_no_timer_and_one_that_waits_has_one(tmp_path: Path) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Recording)
        async with Broker.open(tmp_path / "data") as broker:
            await nothing_happens()
            assert loop.timers == []
            for seconds in (60, 3, 50):
                await broker.bus.schedule_at(seconds, "alert", "ext", {})
            await nothing_happens()
            assert len(loop.timers) == 2, "one for the first, one because the second is due before it"
            assert loop.timers[0] == SCHEDULE_RECHECK_SECONDS_MAX
            assert 2.5 < loop.timers[1] < 3.01

    with asyncio.Runner(loop_factory=Recording) as runner:
        runner.run(run())

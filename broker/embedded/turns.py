"""Turns on the loop: what never has to wait must let others run all the same."""

import asyncio

TURN = 64
"""After so many steps that needed no waiting, others get their turn."""

EVENTS_A_STEP = 10
"""A step with many events is as many steps as it has this number of them, so that a turn takes no longer for them."""


class Turns:
    """Counts steps. In memory everything is done at once, and a loop around `await` alone lets nobody else run."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    async def step(self, events: int = 1) -> None:
        """One more step, with so many events; now and then, a pause for the others."""
        if self.is_over(events):
            await self.pause()

    def is_over(self, events: int = 1) -> bool:
        """One more step, with so many events; whether it is time for a pause."""
        self._steps += 1 + events // EVENTS_A_STEP
        return self._steps >= TURN

    async def pause(self) -> None:
        """Let the others run."""
        self._steps = 0
        await asyncio.sleep(0)

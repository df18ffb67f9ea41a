"""Turns on the loop: what never has to wait must let others run all the same."""

import asyncio

TURN = 64
"""After so many steps that needed no waiting, others get their turn."""


class Turns:
    """Counts steps. In memory everything is done at once, and a loop around `await` alone lets nobody else run."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    async def step(self) -> None:
        """One more step; now and then, a pause for the others."""
        self._steps += 1
        if self._steps >= TURN:
            self._steps = 0
            await asyncio.sleep(0)

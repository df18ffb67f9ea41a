"""The requests that are under way, and how many were answered in which way."""

import asyncio
from collections import Counter


class Traffic:
    """Counts requests. Whoever takes one begins it, and ends it however it came out."""

    def __init__(self) -> None:
        self.answered: Counter[int] = Counter()
        """Answered requests by status."""
        self.under_way = 0
        """Requests that were begun and not ended."""
        self._none_under_way = asyncio.Event()

    def begin(self) -> None:
        """A request is under way."""
        self.under_way += 1

    def end(self, requests: int = 1) -> None:
        """So many requests are not under way any more."""
        self.under_way -= requests
        if not self.under_way:
            self._none_under_way.set()

    async def ended(self) -> None:
        """Wait until none is under way."""
        while self.under_way:
            self._none_under_way.clear()
            await self._none_under_way.wait()

"""One handler, and how it is to be run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from broker.bus.event import Event
from broker.bus.topics import selects, topic_pattern_problem
from broker.contracts.names import text_problem
from broker.errors import InvalidRequest
from broker.limits import (
    BUS_BACKOFF_SECONDS_MAX,
    BUS_CONCURRENCY_MAX,
    BUS_RETRIES_MAX,
    BUS_SUBSCRIBER_ID_BYTES_MAX,
    BUS_TIMEOUT_SECONDS_MAX,
)

Handler = Callable[[Event], Awaitable[Any] | Any]
"""Usually a coroutine function. A plain function runs on the loop, and holds up everything while it does."""


class Subscription:
    """A handler's place at a topic, or at the topics of a pattern."""

    def __init__(
        self,
        topic: str,
        handler: Handler,
        subscriber_id: str,
        *,
        retries: int = 0,
        backoff: float = 1.0,
        timeout: float | None = None,
        concurrency: int = 1,
    ) -> None:
        _check("topic", None if isinstance(topic, str) else "it is not text")
        _check(f"topic {topic!r:.80}", topic_pattern_problem(topic))
        _check("handler", None if callable(handler) else f"{type(handler).__name__} cannot be called")
        _check("subscriber_id", None if isinstance(subscriber_id, str) else "it is not text")
        _check("subscriber_id", text_problem(subscriber_id, BUS_SUBSCRIBER_ID_BYTES_MAX))
        _check_number("retries", retries, 0, BUS_RETRIES_MAX)
        _check_number("backoff", backoff, 0, BUS_BACKOFF_SECONDS_MAX)
        _check_number("concurrency", concurrency, 1, BUS_CONCURRENCY_MAX)
        if timeout is not None:
            _check_number("timeout", timeout, 0, BUS_TIMEOUT_SECONDS_MAX)
            _check("timeout", None if timeout > 0 else "it must be more than 0 seconds, or None")
        self.topic = topic
        self.handler = handler
        self.subscriber_id = subscriber_id
        self.retries = retries
        self.backoff = backoff
        self.timeout = timeout
        self.concurrency = concurrency
        self.claims = 0
        """How many events have begun that it is still to handle, or handles; an unsubscribed one finishes them."""
        self._let_go = asyncio.Event()

    def wants(self, topic: str) -> bool:
        """Whether the events of a topic are for it."""
        return selects(self.topic, topic)

    def claim(self) -> None:
        """An event has begun that it is to handle."""
        self.claims += 1

    def release(self) -> None:
        """It has handled the event, or will not."""
        self.claims -= 1
        self._let_go.set()

    async def unclaimed(self) -> None:
        """Wait until no event that has begun is to come to it any more. For one that is unsubscribed."""
        while self.claims:
            self._let_go.clear()
            await self._let_go.wait()

    def delay_after(self, tries: int) -> float:
        """How many seconds to wait after so many tries in vain: twice as long each time."""
        return min(float(self.backoff) * 2.0 ** min(tries - 1, BUS_RETRIES_MAX), BUS_BACKOFF_SECONDS_MAX)

    def __repr__(self) -> str:
        return f"<Subscription of {self.subscriber_id} to {self.topic}>"


def _check(name: str, problem: str | None) -> None:
    if problem is not None:
        raise InvalidRequest(f"{name}: {problem}")


def _check_number(name: str, number: float, least: float, most: float) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not least <= number <= most:
        raise InvalidRequest(f"{name} must be from {least} to {most}, not {number!r:.80}")

"""Agent: one provider, within its bounds: how many agents may have led to it, how often, how many at once, how long."""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from broker.agents.budget import Budget
from broker.agents.cause import hops, one_agent_further
from broker.agents.provider import AgentProvider
from broker.agents.request import AgentRequest
from broker.bus import Event
from broker.clock import Clock
from broker.limits import (
    AGENT_ANSWER_BYTES_MAX,
    AGENT_CALLS_PER_MINUTE_DEFAULT,
    AGENT_CONCURRENCY_DEFAULT,
    AGENT_HOPS_DEFAULT,
    AGENT_SECONDS_DEFAULT,
)

log = logging.getLogger(__name__)

Show = Callable[[AsyncIterator[str]], Awaitable[None]]
"""Takes the pieces of an answer to the user."""


class AgentFailed(Exception):
    """An agent was not asked, or did not answer; the message says why, and what to do."""


class Agent:
    """Answers events."""

    def __init__(
        self,
        agent_id: str,
        provider: Callable[[], AgentProvider],
        clock: Clock,
        *,
        model: str | None = None,
        instructions: str = "",
        timeout: float = AGENT_SECONDS_DEFAULT,
        concurrency: int = AGENT_CONCURRENCY_DEFAULT,
        calls_per_minute: int = AGENT_CALLS_PER_MINUTE_DEFAULT,
        hops_max: int = AGENT_HOPS_DEFAULT,
    ) -> None:
        self.agent_id = agent_id
        self._provider = provider
        self._model = model
        self._instructions = instructions
        self._timeout = timeout
        self._calls_per_minute = calls_per_minute
        self._hops_max = hops_max
        self._slots = asyncio.Semaphore(concurrency)
        self._budget = Budget(calls_per_minute, clock)

    async def answer(self, event: Event, show: Show) -> None:
        """Ask for an answer to the event that is being handled, and have it shown.

        Raise AgentFailed, or what the provider raises, if there is none.
        """
        if hops() >= self._hops_max:
            raise AgentFailed(
                f"the agent {self.agent_id} was not asked: {hops()} agents led to this event, one after the other, and "
                f"agent.hops_max is {self._hops_max}; look for agents that wake each other"
            )
        request = AgentRequest(event, self.agent_id, self._instructions, self._model)
        limit = asyncio.timeout(self._timeout)
        async with self._slots:
            await self._budget.spend(self._waits)
            try:
                with one_agent_further(event):
                    async with limit, aclosing(self._pieces(request)) as pieces:
                        await show(pieces)
            except TimeoutError:
                if not limit.expired():
                    raise
                text = f"the agent {self.agent_id} had no whole answer within {self._timeout:g} s (agent.timeout)"
                raise AgentFailed(text) from None

    def _waits(self, seconds: float) -> None:
        log.warning(
            "the agent %s was called %d times within a minute, as often as agent.calls_per_minute allows; "
            "it goes on in %.1f s",
            self.agent_id,
            self._calls_per_minute,
            seconds,
        )

    async def _pieces(self, request: AgentRequest) -> AsyncGenerator[str, None]:
        """The answer of the provider, whichever way it gives it; not more of it than a message can have."""
        result = self._provider().invoke(request)
        size = 0
        async for piece in _iterated(result):
            if not isinstance(piece, str):
                raise AgentFailed(f"the agent {self.agent_id} answered with {type(piece).__name__}, which is no text")
            size += len(piece.encode(errors="replace"))
            if size > AGENT_ANSWER_BYTES_MAX:
                raise AgentFailed(f"the agent {self.agent_id} answered with more than {AGENT_ANSWER_BYTES_MAX} bytes")
            if piece:
                yield piece


async def _iterated(result: object) -> AsyncIterator[object]:
    if inspect.isasyncgen(result):
        async with aclosing(result):
            async for piece in result:
                yield piece
    elif isinstance(result, AsyncIterator):
        async for piece in result:
            yield piece
    else:
        whole = await result if inspect.isawaitable(result) else result
        if whole is not None:
            yield whole

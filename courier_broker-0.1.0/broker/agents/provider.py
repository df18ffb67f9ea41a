"""AgentProvider: what is asked of one. An extension whose object has `invoke` is one."""

from collections.abc import AsyncIterator, Awaitable
from typing import Protocol, runtime_checkable

from broker.agents.request import AgentRequest


@runtime_checkable
class AgentProvider(Protocol):
    """Something that answers events."""

    def invoke(self, request: AgentRequest) -> Awaitable[str | None] | AsyncIterator[str]:
        """The answer: of a coroutine as a whole (None: there is nothing to say), of an async generator in pieces."""

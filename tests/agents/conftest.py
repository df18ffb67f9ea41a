"""An agent on a real server, and the event that it is asked about."""

from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from broker.agents import AgentRequest
from broker.agents.openai import OpenAIProvider
from broker.bus import Event
from broker.outgoing.calls import open_session
from broker.outgoing.retries import Retries

EVENT = Event(7, "reminder.due", "reminder", {"text": "Drink water"}, 1_771_525_800.0, "req-1")
REQUEST = AgentRequest(EVENT, "reminder_agent", "You handle reminders.", "gpt-5-mini")

MakeProvider = Callable[..., OpenAIProvider]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """What calls are made with."""
    async with open_session() as opened:
        yield opened


@pytest.fixture
def provider(session: aiohttp.ClientSession) -> MakeProvider:
    """A provider for an endpoint: `provider(url, key=…, retries=…)`."""

    def make(url: str, *, key: str | None = "sk-secret", retries: int = 3) -> OpenAIProvider:
        patience = Retries(retries, backoff_seconds=0.001)
        return OpenAIProvider(lambda: session, url, key=key, key_env="OPENAI_API_KEY", retries=patience)

    return make


async def pieces_of(provider: OpenAIProvider) -> list[str]:
    """The answer in its pieces."""
    return [piece async for piece in provider.invoke(REQUEST)]

"""A server to pull from, and a broker that does."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.app import App
from broker.sources.state import SourceState
from tests.conftest import StartApp
from tests.support.upstream import Upstream, rest, serving, websocket


@pytest.fixture
async def upstream(_tasks_end_with_the_test: None) -> AsyncIterator[Upstream]:
    """A server on loopback."""
    async with serving(Upstream()) as started:
        yield started


class Pulling:
    """A broker that pulls from `upstream`; it may be started again on the same journal."""

    def __init__(self, upstream: Upstream, start_app: StartApp) -> None:
        self._upstream = upstream
        self._start = start_app
        self.app: App

    async def poll(self, config: dict[str, Any] | None = None, **more: Any) -> SourceState:
        """Start a broker with a poller; how that is doing."""
        return await self.start({"rest": [rest(self._upstream, **more)]}, config)

    async def listen(self, config: dict[str, Any] | None = None, **more: Any) -> SourceState:
        """Start a broker with a WebSocket; how that is doing."""
        return await self.start({"websocket": [websocket(self._upstream, **more)]}, config)

    async def start(self, sources: dict[str, Any], config: dict[str, Any] | None = None) -> SourceState:
        """Start a broker with sources; how the first one is doing."""
        self.app = await self._start({"sources": sources, **(config or {})})
        return self.app.sources.states[0]


@pytest.fixture
def pulling(upstream: Upstream, start_app: StartApp) -> Pulling:
    """Starts brokers that pull."""
    return Pulling(upstream, start_app)

"""`GET /metrics`: how the broker is doing, for Prometheus."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from broker.front.guard import PRINCIPAL
from broker.front.requests import Query


class MetricsEndpoint:
    """The endpoint. What it shows is made elsewhere, and handed in."""

    def __init__(self, render: Callable[[], Awaitable[bytes]], content_type: str) -> None:
        self._render = render
        self._content_type = content_type

    async def handle(self, request: web.Request) -> web.Response:
        """Everything that can be measured, as text."""
        request[PRINCIPAL].check_metrics()
        Query(request)
        return web.Response(body=await self._render(), headers={"Content-Type": self._content_type})

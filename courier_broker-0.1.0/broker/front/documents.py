"""`/openapi.json` and `/asyncapi.json`: the interface, for programs.

They ask for a token like everything but the probes. They hold no secrets, but nothing needs them before it has
a token, and what is not shown to strangers does not tell them which version they face.
"""

from typing import Any

import orjson
from aiohttp import web


class Documents:
    """One document, encoded once."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._bytes = orjson.dumps(document)

    async def handle(self, _request: web.Request) -> web.Response:
        """The document."""
        return web.Response(body=self._bytes, content_type="application/json")

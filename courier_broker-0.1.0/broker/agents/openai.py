"""The provider for every endpoint that speaks the protocol of OpenAI: `POST {base_url}/chat/completions`, streamed.

A call is tried again (429, 5xx, no connection) as long as nothing of an answer has come. Once something has, somebody
may have seen it, and an answer that breaks off is a failure.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec
import orjson

from broker.agents.request import AgentRequest
from broker.agents.sse import SseCutter, SseTooLong
from broker.limits import AGENT_BODY_BYTES_MAX
from broker.outgoing.calls import CallFailed, message_of, plain, post
from broker.outgoing.retries import Retries

DEFAULT_BASE_URL = "https://api.openai.com/v1"
END = b"[DONE]"
_SHOWN_BYTES_MAX = 80


class OpenAIProvider:
    """Asks one endpoint."""

    def __init__(
        self,
        session: Callable[[], aiohttp.ClientSession],
        base_url: str,
        *,
        key: str | None,
        key_env: str,
        retries: Retries,
    ) -> None:
        self._session = session
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._key = key
        self._key_env = key_env
        self._retries = retries

    async def invoke(self, request: AgentRequest) -> AsyncIterator[str]:
        """The answer in pieces; raise CallFailed for one that cannot be had, or is not whole."""
        headers = {"Accept": "text/event-stream"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        hint = f"look at the key in the variable {self._key_env}" if self._key else "give the key in agent.api_key_env"
        async with post(self._session(), self._url, body_of(request), headers, self._retries, hint=hint) as response:
            try:
                pieces = self._streamed if response.content_type == "text/event-stream" else self._whole
                async for piece in pieces(response):
                    yield piece
            except (aiohttp.ClientError, OSError) as error:
                raise CallFailed(f"{self._url} broke off in the middle of its answer: {plain(str(error))}") from error

    async def _streamed(self, response: aiohttp.ClientResponse) -> AsyncIterator[str]:
        cutter, size, is_whole = SseCutter(), 0, False
        async for chunk in response.content.iter_any():
            size += len(chunk)
            self._check(size)
            try:
                for data in cutter.feed(chunk):
                    if data == END:
                        return
                    piece, ends = self._piece(data)
                    is_whole = is_whole or ends
                    if piece:
                        yield piece
            except SseTooLong as error:
                raise CallFailed(f"{self._url} does not speak the protocol: {error}") from None
        if not is_whole:
            raise CallFailed(f"{self._url} broke off in the middle of its answer: the stream ended without [DONE]")

    async def _whole(self, response: aiohttp.ClientResponse) -> AsyncIterator[str]:
        """The answer of an endpoint that does not stream."""
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            self._check(len(body))
        choice = self._choice(bytes(body))
        content = _at(choice, "message", "content")
        if content is not None and not isinstance(content, str):
            raise self._nonsense(bytes(body))
        if content:
            yield content

    def _piece(self, data: bytes) -> tuple[str, bool]:
        """What an event adds to the answer, and whether it is the last one."""
        choice = self._choice(data, streamed=True)
        content = _at(choice, "delta", "content")
        if content is not None and not isinstance(content, str):
            raise self._nonsense(data)
        return content or "", bool(choice.get("finish_reason"))

    def _choice(self, data: bytes, *, streamed: bool = False) -> dict[str, Any]:
        """The first choice of a document; an empty one where a stream has an event without any: that with the usage."""
        try:
            document = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            raise self._nonsense(data) from None
        if not isinstance(document, dict):
            raise self._nonsense(data)
        if document.get("error"):
            raise CallFailed(f"{self._url} broke off with an error: {plain(message_of(data.decode(errors='replace')))}")
        choices = document.get("choices")
        if streamed and (choices is None or choices == []):
            return {}
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise self._nonsense(data)
        return choices[0]

    def _check(self, size: int) -> None:
        if size > AGENT_BODY_BYTES_MAX:
            raise CallFailed(f"{self._url} answers with more than {AGENT_BODY_BYTES_MAX} bytes")

    def _nonsense(self, data: bytes) -> CallFailed:
        shown = plain(data[:_SHOWN_BYTES_MAX].decode(errors="replace"))
        return CallFailed(f"{self._url} does not speak the protocol: found {shown!r}")


def _at(choice: dict[str, Any], *path: str) -> Any:
    value: Any = choice
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def body_of(request: AgentRequest) -> dict[str, Any]:
    """What is asked: the instructions, and the event as JSON."""
    event = request.event
    told = {
        "topic": event.topic,
        "source": event.source,
        "correlation_id": event.correlation_id,
        "payload": event.payload,
    }
    messages = [{"role": "user", "content": orjson.dumps(told).decode()}]
    if request.instructions:
        messages.insert(0, {"role": "system", "content": request.instructions})
    return {"model": request.model, "messages": messages, "stream": True}

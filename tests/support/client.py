"""A producer and a consumer, as a test wants them: every wait has an end, every answer is in one piece."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from tests.support.events import STREAM, body

JSON = {"Content-Type": "application/json"}
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "Sec-WebSocket-Version": "13",
}
"""What makes a request one that could become a WebSocket."""

PATIENCE_SECONDS = 20.0


class Answer(NamedTuple):
    """A response, read whole."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Client:
    """Talks HTTP and WebSocket to one broker."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def request(
        self, method: str, path: str, *, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Any request; the answer must be JSON."""
        async with self.session.request(method, path, data=data, headers=headers) as response:
            content = await response.read()
            assert response.content_type == "application/json", (response.status, response.content_type, content[:200])
            return Answer(response.status, response.headers, json.loads(content))

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """A GET."""
        return await self.request("GET", path, headers=headers)

    async def post(self, data: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """Bytes to `/v1/enqueue`, declared as JSON unless the headers say otherwise."""
        return await self.request("POST", "v1/enqueue", data=data, headers=JSON | dict(headers or {}))

    async def enqueue(self, event_id: str, to: str = STREAM, **fields: Any) -> dict[str, Any]:
        """Enqueue a valid envelope; what the broker answered, which must be that it took it."""
        answer = await self.post(body(event_id, to, **fields))
        assert answer.status == 200, answer
        taken: dict[str, Any] = answer.body
        return taken

    async def enqueue_all(self, *event_ids: str, to: str = STREAM) -> None:
        """Enqueue envelopes one after the other."""
        for event_id in event_ids:
            await self.enqueue(event_id, to)

    @asynccontextmanager
    async def subscribe(
        self, stream: str = STREAM, headers: Mapping[str, str] | None = None, **query: str
    ) -> AsyncIterator["Subscriber"]:
        """A subscriber without credit, until the end of the block."""
        socket = await self.session.ws_connect("v1/subscribe", params={"stream": stream, **query}, headers=headers)
        try:
            yield Subscriber(socket)
        finally:
            await socket.close()


class Subscriber:
    """One WebSocket subscription."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, **frame: Any) -> None:
        """A control frame."""
        await self.socket.send_json(frame)

    async def credit(self, credit: int) -> None:
        """Ask for so many events more."""
        await self.send(credit=credit)

    async def ack(self, *event_ids: str) -> None:
        """Be done with events."""
        for event_id in event_ids:
            await self.send(ack=event_id)

    async def message(self) -> aiohttp.WSMessage:
        """The next message of whatever kind."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.socket.receive()

    async def frame(self) -> dict[str, Any]:
        """The next frame, which must be text."""
        message = await self.message()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        frame: dict[str, Any] = json.loads(message.data)
        return frame

    async def delivery(self) -> dict[str, Any]:
        """The next frame, which must be a delivery."""
        frame = await self.frame()
        assert frame.keys() == {"deliver", "attempt", "seq"}, frame
        return frame

    async def ids(self, count: int) -> list[str]:
        """The ids of the next deliveries."""
        return [(await self.delivery())["deliver"]["id"] for _ in range(count)]

    async def error(self) -> dict[str, Any]:
        """The next frame, which must be an error."""
        frame = await self.frame()
        assert frame.keys() == {"error"}, frame
        error: dict[str, Any] = frame["error"]
        return error

    async def settled(self) -> None:
        """Wait until the broker has read every frame before this one; no delivery may come meanwhile.

        The broker takes frames in order, and answers one that it cannot obey.
        """
        await self.ack("never delivered")
        assert (await self.error())["id"] == "never delivered"

    async def close_code(self) -> int:
        """The code with which the broker closes the socket; whatever comes before it is passed over."""
        while (message := await self.message()).type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            pass
        assert message.type is aiohttp.WSMsgType.CLOSE, message
        code: int = message.data
        return code


def assert_error(answer: Answer, status: int, code: str, *, retryable: bool = False, **detail: Any) -> str:
    """Check that an answer is an error in the one documented shape; its message."""
    assert answer.status == status, answer
    assert answer.body.keys() == {"error"}
    error = answer.body["error"]
    message = error.pop("message")
    expected = {"code": code, "retryable": retryable, "retry_after_seconds": 1 if retryable else 0, **detail}
    assert error == expected
    assert answer.headers.get("Retry-After") == (str(expected["retry_after_seconds"]) if retryable else None)
    assert isinstance(message, str)
    return message

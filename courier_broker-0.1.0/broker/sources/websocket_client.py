"""A server that sends frames over a WebSocket: one round is one connection.

One task reads and one commits, so that frames gather while a commit is on its way. When as many have gathered as a
commit should hold, nothing more is read, and the server's own socket fills up. What was read before a connection ended
is committed all the same; a connection then begins again behind the cursor that is on disk.
"""

import asyncio
from collections.abc import Mapping
from typing import Literal

import aiohttp
from aiohttp import ClientWebSocketResponse, ClientWSTimeout, WSMsgType, hdrs
from aiohttp.http import WSMessageNoDecodeText as Message

from broker.config import WebSocketSource
from broker.contracts import pulled
from broker.errors import CourierError
from broker.limits import SOURCE_FRAME_BYTES_MAX
from broker.sources.backoff import delay_seconds
from broker.sources.deposit import Deposit, Way
from broker.sources.frames import Frames
from broker.sources.problem import SourceProblem
from broker.sources.requests import filled_message, filled_url, retry_after_seconds
from broker.sources.state import SourceState

Socket = ClientWebSocketResponse[Literal[False]]

_CLOSE_SECONDS = 1.0
"""How long the server may take to say goodbye."""


class WebSocketClient:
    """One source."""

    def __init__(
        self,
        settings: WebSocketSource,
        mapping: pulled.Mapping,
        headers: Mapping[str, str],
        state: SourceState,
        way: Way,
        session: aiohttp.ClientSession,
    ) -> None:
        self.settings = settings
        self.state = state
        self._mapping = mapping
        self._headers = headers
        self._deposit = Deposit(mapping, state, way)
        self._way = way
        self._session = session

    async def round(self) -> float:
        """Connect, and take what comes until the connection ends; after how many seconds to connect again.

        Raise SourceProblem when it came to nothing.
        """
        self.state.began("connecting")
        before = (self.state.events, self.state.cursor)
        socket = await self._connect()
        try:
            self.state.phase = "connected"
            reason = await self._take_all(socket)
        finally:
            await socket.close()
        if before == (self.state.events, self.state.cursor):
            raise SourceProblem(reason)
        self.state.failed(reason, self._way.clock.wall_us())
        self.state.succeeded()
        return delay_seconds(1, self.settings.backoff_max_ms, self._way.rng)

    async def _connect(self) -> Socket:
        cursor = self.settings.first_cursor if self.state.cursor is None else self.state.cursor
        async with asyncio.timeout(self.settings.timeout_ms / 1000):
            try:
                socket = await self._session.ws_connect(
                    filled_url(self.settings.url, cursor),
                    headers=self._headers,
                    timeout=ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                    autoping=False,
                    max_msg_size=SOURCE_FRAME_BYTES_MAX,
                    decode_text=False,
                )
            except aiohttp.WSServerHandshakeError as refusal:
                asked = None if refusal.headers is None else refusal.headers.get(hdrs.RETRY_AFTER)
                seconds = retry_after_seconds(asked, self._way.clock.wall_us())
                raise SourceProblem(f"the server makes no WebSocket of it: {refusal.status}", seconds) from None
            if self.settings.first_message is not None:
                await socket.send_str(filled_message(self.settings.first_message, cursor))
        return socket

    async def _take_all(self, socket: Socket) -> str:
        """Read and commit until the connection ends; why it did."""
        frames = Frames()
        reading = asyncio.create_task(self._read(socket, frames))
        committing = asyncio.create_task(self._commit(frames))
        try:
            await asyncio.wait((reading, committing), return_when=asyncio.FIRST_EXCEPTION)
        finally:
            reading.cancel()
            committing.cancel()
            await asyncio.gather(reading, committing, return_exceptions=True)
        if not committing.cancelled():
            committing.result()
        return reading.result()

    async def _read(self, socket: Socket, frames: Frames) -> str:
        try:
            while (message := await self._message(socket)) is not None:
                if message.type is WSMsgType.PING:
                    await socket.pong(message.data)
                elif message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    await frames.put(message.data)
                elif message.type is not WSMsgType.PONG:
                    return _end(socket, message)
            return f"the server has sent nothing for {2 * self.settings.silence_ms} ms, and does not answer a ping"
        except (aiohttp.ClientError, ConnectionError) as error:
            return f"the connection broke: {error or type(error).__name__}"
        finally:
            frames.end()

    async def _message(self, socket: Socket) -> Message | None:
        """The next frame of whatever kind; None if none comes even after a ping."""
        seconds = self.settings.silence_ms / 1000
        try:
            return await socket.receive(seconds)
        except TimeoutError:
            await socket.ping()
        try:
            return await socket.receive(seconds)
        except TimeoutError:
            return None

    async def _commit(self, frames: Frames) -> None:
        while taken := await frames.take():
            items: list[bytes] = []
            unread: list[tuple[bytes, CourierError]] = []
            cursor: str | None = None
            for frame in taken:
                try:
                    page = pulled.read_page(frame, self._mapping)
                except CourierError as error:
                    unread.append((frame, error))
                    continue
                items += page.items
                cursor = page.cursor or cursor
            await self._deposit.put(items, cursor, unread)
            if items:
                self.state.succeeded()


def _end(socket: Socket, message: Message) -> str:
    if message.type is WSMsgType.ERROR:
        return f"the connection broke: {message.data}"
    return f"the server closed the connection with code {socket.close_code}"

"""A WebSocket whose texts are taken as they are read from the line, all of one read at once.

aiohttp makes a message of each frame, puts it into a queue, and wakes a task that awaits it: for one small event a
frame that is most of what the loop does. Here what a client sends goes through `_fast.FrameReader` first, and its
texts to a function, in the call that brought the bytes. aiohttp's own reader has all else: pings and pongs, and
from the first frame on that is not plain (a fragment, a close, binary data) everything. Its messages come as they
always do, by `async for`, behind the texts before them. Rejected: a reader of our own for the whole protocol, to be
kept as right as aiohttp's.

Whoever takes texts may take fewer than there are. Then the rest is kept, and the line is not read, until it is ready.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from aiohttp import WSMessage, WSMsgType, web
from aiohttp.http_websocket import WebSocketReader, WebSocketWriter
from aiohttp.web_request import BaseRequest

from _fast import FrameReader
from broker.deliveries.framing import text_frame_head
from broker.front.connections import Connection

Take = Callable[[list[bytes], int], int]
"""Takes texts from an index on, and returns up to where: before the end when it has no room for more now."""

_GO_ON: Final = (False, b"")
"""What a parser tells aiohttp as long as nothing is wrong."""


class TextSocket(web.WebSocketResponse):
    """One that hands over the texts of a read, if somebody takes them."""

    def __init__(self, *, text_bytes_max: int, **options: Any) -> None:
        super().__init__(max_msg_size=text_bytes_max + 1, **options)  # aiohttp refuses from here on
        self._text_bytes_max = text_bytes_max
        self._texts: _Texts | None = None

    def _post_start(self, request: BaseRequest, protocol: str | None, writer: WebSocketWriter) -> None:
        connection = cast(Connection, request.protocol)
        came_early = connection.frames_came_early  # then aiohttp's reader gets them, and goes on with what follows
        super()._post_start(request, protocol, writer)
        if not came_early:
            assert self._parser is not None, "aiohttp has made its reader"
            self._texts = _Texts(self, self._parser, connection, self._text_bytes_max)
            connection.replace_parser(self._texts)

    def take_texts(self, take: Take, ready: Callable[[], Awaitable[None]]) -> None:
        """Hand texts to `take` from now on; when it has no room, wait for `ready`."""
        if self._texts is not None:
            self._texts.begin(take, ready)

    def give_back(self, texts: list[bytes]) -> None:
        """Let aiohttp say what is wrong with the first of these texts, which were handed over in one read."""
        assert self._texts is not None, "texts are given back by who was given them"
        self._texts.give_back(texts)

    async def texts_taken(self) -> None:
        """Wait until the texts that were read so far are taken; raise what kept them from it."""
        if self._texts is not None:
            await self._texts.taken()

    def stop_reading(self) -> None:
        """Let `async for` end."""
        assert self._reader is not None, "who is read from has a queue"
        self._reader.feed_data(WSMessage(WSMsgType.CLOSING, None, ""), 0)

    def end_texts(self) -> None:
        """Nobody takes any more; what is kept is dropped, and what comes behind it is read."""
        if self._texts is not None:
            self._texts.end()

    def _pong_not_received(self) -> None:
        """A peer that is not read cannot be heard: it is asked again."""
        if self._texts is not None and self._texts.holds:
            self._reset_heartbeat()
        else:
            super()._pong_not_received()


class _Texts:
    """Stands where aiohttp expects its parser of frames, which it has behind it."""

    def __init__(
        self,
        socket: TextSocket,
        reader: WebSocketReader,
        connection: Connection,
        text_bytes_max: int,
    ) -> None:
        self._socket = socket
        self._reader = reader
        self._connection = connection
        self._frames = FrameReader(text_bytes_max)
        self._is_plain = True
        """Whether aiohttp's reader has not got what it must read on from."""
        self._take: Take | None = None
        self._ready: Callable[[], Awaitable[None]] | None = None
        self._kept: list[bytes] = []
        """Texts for which there was no room."""
        self._kept_others: list[bytes] = []
        """What comes behind them."""
        self._ended = False
        self._failure: Exception | None = None
        self._going_on: asyncio.Task[None] | None = None

    def begin(self, take: Take, ready: Callable[[], Awaitable[None]]) -> None:
        self._take = take
        self._ready = ready

    @property
    def holds(self) -> bool:
        """Whether texts wait for room, so that nothing is read."""
        return self._going_on is not None

    # What aiohttp calls.

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take what was read."""
        others = data
        if self._is_plain and self._take is not None:
            texts, others = self._frames.take(data)
            self._is_plain = self._frames.is_plain
            if texts and not self._socket.closed and not self._ended:
                self._hand_over(texts)
        else:
            self._is_plain = False  # nobody took what came first, so aiohttp has it, and what follows
        if not others:
            return _GO_ON
        if self._going_on is not None:
            self._kept_others.append(others)
            self._connection.hold_frames()  # aiohttp may have gone on reading, when its queue had room again
            return _GO_ON
        answer: tuple[bool, bytes] = self._reader.feed_data(others)
        return answer

    def feed_eof(self) -> None:
        """The line has ended; what is kept is still taken."""
        self._reader.feed_eof()

    # Inside.

    def _hand_over(self, texts: list[bytes]) -> None:
        if self._going_on is not None:
            self._kept += texts
            self._connection.hold_frames()
            return
        took = self._try(texts)
        if took < len(texts):
            self._kept = texts[took:]
            self._connection.hold_frames()
            self._going_on = asyncio.get_running_loop().create_task(self._go_on())

    def _try(self, texts: list[bytes]) -> int:
        """Hand over texts; how many were taken. One that breaks the taker ends the socket."""
        assert self._take is not None
        try:
            return self._take(texts, 0)
        except Exception as error:  # noqa: BLE001 - it is raised again where the socket is served
            self._failure = error
            self._ended = True
            self._socket.stop_reading()
            return len(texts)

    async def _go_on(self) -> None:
        """Hand over what is kept as there is room, then read on."""
        assert self._ready is not None
        while self._kept and not self._ended:
            await self._ready()
            took = self._try(self._kept)
            del self._kept[:took]
        self._read_on()

    def _read_on(self) -> None:
        """Let aiohttp have what waited behind the texts, and read the line again."""
        self._going_on = None
        others, self._kept_others = self._kept_others, []
        for each in others:
            if self._reader.feed_data(each)[0]:
                self._connection.close()
        self._connection.read_frames()

    def give_back(self, texts: list[bytes]) -> None:
        self._is_plain = False
        for text in texts:
            self._reader.feed_data(text_frame_head(len(text)) + text)

    async def taken(self) -> None:
        if (going_on := self._going_on) is not None:
            await asyncio.wait({going_on})  # it may be cancelled, by `end`; who waits is not
            if not going_on.cancelled():
                going_on.result()
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        self._ended = True
        if self._going_on is not None:
            self._going_on.cancel()
            self._kept.clear()
            self._read_on()

"""`WS /v1/tail?stream=PATTERN&from=SEQ`: new events as they are committed, shown and not consumed."""

import asyncio

from aiohttp import web

from broker.contracts.names import stream_pattern_problem
from broker.deliveries.tail import Seen, TailQueue, Tails
from broker.errors import InvalidRequest
from broker.front.guard import PRINCIPAL
from broker.front.line import Line
from broker.front.requests import Query
from broker.front.sockets import Objection, OpenSockets, check_handshake, refuse
from broker.journal.follow import follow
from broker.journal.reader import ReaderPool
from broker.limits import SEQ_MAX, WRITE_BYTES_MAX

NOW = "now"


class Tail:
    """The endpoint, and the sockets that are open on it."""

    def __init__(self, tails: Tails, readers: ReaderPool) -> None:
        self._tails = tails
        self._readers = readers
        self._sockets = OpenSockets()

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Show one follower what comes until it goes away."""
        self._sockets.check()
        query = Query(request, "stream", "from")
        pattern = query.text("stream") or ""
        if (problem := stream_pattern_problem(pattern)) is not None:
            raise InvalidRequest(f"stream: {problem}; connect to /v1/tail?stream=PATTERN")
        from_seq = None if query.text("from") in (None, NOW) else query.integer("from", 1, 1, SEQ_MAX)
        request[PRINCIPAL].check_stream(pattern, "subscribe")
        check_handshake(request)
        with self._tails.follow(pattern) as queue:
            async with self._sockets.accept(request) as socket:
                line = await Line.of(socket, request)
                sender = asyncio.create_task(self._send(line, queue, from_seq))
                try:
                    async for _ in socket:
                        await refuse(socket, InvalidRequest("a tail takes no frames; it only shows events"))
                finally:
                    sender.cancel()
                    await asyncio.gather(sender, return_exceptions=True)
                    line.cut()
        return socket

    @property
    def open_sockets(self) -> int:
        """How many sockets are open."""
        return len(self._sockets)

    async def revoke(self, objection: Objection) -> int:
        """Close the sockets of callers that may not stay; how many those were."""
        return await self._sockets.revoke(objection)

    async def close(self) -> None:
        """Close every socket, saying that the broker goes away; let nobody in any more."""
        await self._sockets.close()

    async def _send(self, line: Line, queue: TailQueue, from_seq: int | None) -> None:
        """Send the past, if it was asked for, and then what comes, until the follower is gone."""
        try:
            if from_seq is not None:
                await self._catch_up(line, queue, from_seq)
            while True:
                await line.write(await queue.take())
        except ConnectionError:
            line.cut()

    async def _catch_up(self, line: Line, queue: TailQueue, from_seq: int) -> None:
        """Send pages of the ledger until the queue has all that comes after them."""
        while True:
            queue.before_page()
            rows, up_to, is_end = await self._readers.run(follow, queue.pattern, from_seq)
            frames: list[bytes] = []
            size = 0
            for row in rows:
                frames.append(Seen(*row).as_frame())
                size += len(frames[-1])
                if size >= WRITE_BYTES_MAX:
                    await line.write(b"".join(frames))
                    frames, size = [], 0
            if frames:
                await line.write(b"".join(frames))
            from_seq = up_to + 1
            if is_end and queue.after_last_page(up_to):
                return

"""The sockets of producers on one endpoint: opened, read frame by frame, answered in order, and closed in order."""

import asyncio
from abc import ABC, abstractmethod

import orjson
from aiohttp import web

from broker.admission.auth import Principal
from broker.front.answers import Answers
from broker.front.frames import TextSocket
from broker.front.guard import PRINCIPAL
from broker.front.line import Line
from broker.front.sender import Sender
from broker.front.sockets import Objection, OpenSockets, check_handshake
from broker.limits import PUBLISH_WINDOW


class Producers(ABC):
    """What every endpoint has on which producers send; each says for itself what a frame is."""

    def __init__(self) -> None:
        self._sockets = OpenSockets()
        self._answers: set[Answers] = set()

    @abstractmethod
    async def _receive(self, socket: TextSocket, principal: Principal, answers: Answers) -> None:
        """Take frames, and see to their answers, until the producer goes away."""

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one producer until it goes away."""
        self._sockets.check()
        check_handshake(request)
        answers = Answers()
        async with self._sockets.accept(request) as socket:
            self._answers.add(answers)
            line = await Line.of(socket, request)
            sender = Sender(line, answers)
            try:
                answers.put(orjson.dumps({"window": PUBLISH_WINDOW}))
                await self._receive(socket, request[PRINCIPAL], answers)
            finally:
                self._answers.discard(answers)
                await sender.end()
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
        """Answer what was received, then close every socket."""
        await asyncio.gather(*(answers.settled() for answers in tuple(self._answers)))
        await self._sockets.close()

"""The intake over a Unix socket: a JSON object a line, and an answer a line, in order.

A line with a `command` and no `type` is one; any other is an event. Commands are here and not on HTTP, because the
rights on the socket's file say who may give them. `{"command": "lane", "lane": NAME}` puts what follows on this
connection into another lane.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from edge.edge import Edge
from edge.errors import EdgeError, EventInvalid, OutboxUnavailable, RequestInvalid
from edge.intake import put
from edge.limits import INTAKE_CONNECTIONS_MAX, INTAKE_EVENTS_MAX, LINE_BYTES_MAX
from edge.store import DEFAULT_LANE

Command = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
DISCARD_SECONDS = 1.0
Answer = Awaitable[dict[str, Any]]


class LocalSocket:
    """Serves one socket."""

    def __init__(self, edge: Edge, commands: Mapping[str, Command]) -> None:
        self._edge = edge
        self._commands = commands
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def listen(self, path: Path) -> None:
        """Serve the socket, for its owner and group. One that a dead process left is replaced."""
        await asyncio.to_thread(path.unlink, missing_ok=True)
        self._server = await asyncio.start_unix_server(self._connected, path, limit=LINE_BYTES_MAX)
        await asyncio.to_thread(path.chmod, 0o660)
        self._path = path

    async def close(self) -> None:
        """Take nothing more."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._path is not None:
            await asyncio.to_thread(self._path.unlink, missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > INTAKE_CONNECTIONS_MAX:
                full = OutboxUnavailable(f"{INTAKE_CONNECTIONS_MAX} connections are open already; try again")
                writer.write(_line(_refusal(full)))
                await writer.drain()
            else:
                await self._serve(reader, writer)
        except ConnectionError:
            pass  # gone; what it put is in the outbox
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read lines and answer them side by side, so that those that come together share a commit."""
        answers: asyncio.Queue[Answer | None] = asyncio.Queue(INTAKE_EVENTS_MAX)
        answering = asyncio.create_task(_answer(answers, writer))
        reading = asyncio.create_task(self._read(reader, answers))
        try:
            await asyncio.wait([answering, reading], return_when=asyncio.FIRST_EXCEPTION)
            for task in (reading, answering):
                if task.done():
                    task.result()
        finally:
            for task in (reading, answering):
                task.cancel()
            await asyncio.gather(reading, answering, return_exceptions=True)
            while not answers.empty():
                left = answers.get_nowait()
                if isinstance(left, asyncio.Future):
                    left.cancel()

    async def _read(self, reader: asyncio.StreamReader, answers: asyncio.Queue[Answer | None]) -> None:
        lane = DEFAULT_LANE
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                await answers.put(_at_once(_refusal(EventInvalid(f"a line is longer than {LINE_BYTES_MAX} bytes"))))
                await answers.put(None)
                await _discard(reader)
                return
            if not line:
                break
            if not line.strip():
                continue
            command = _command(line)
            if command is None:
                await answers.put(asyncio.ensure_future(put(self._edge, line, lane)))
            elif command["command"] == "lane":
                lane = str(command.get("lane", DEFAULT_LANE))
                await answers.put(_at_once({"lane": lane}))
            else:
                await answers.put(asyncio.ensure_future(self._obey(command)))
        await answers.put(None)

    async def _obey(self, command: dict[str, Any]) -> dict[str, Any]:
        name = command["command"]
        try:
            if name not in self._commands:
                raise RequestInvalid(f"{name!r} is no command; there are lane, {', '.join(self._commands)}")
            return await self._commands[name](command)
        except EdgeError as error:
            return _refusal(error)


async def _answer(answers: asyncio.Queue[Answer | None], writer: asyncio.StreamWriter) -> None:
    """Write the answers in the order of the lines."""
    while (answer := await answers.get()) is not None:
        writer.write(_line(await answer))
        if answers.empty():
            await writer.drain()
    await writer.drain()


async def _discard(reader: asyncio.StreamReader) -> None:
    """Read on for a moment: whoever is still sending would otherwise lose the answer with the line."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while await reader.read(LINE_BYTES_MAX):
                pass


def _command(line: bytes) -> dict[str, Any] | None:
    if b'"command"' not in line:
        return None
    with contextlib.suppress(orjson.JSONDecodeError):
        match orjson.loads(line):
            case {"command": str()} as command if "type" not in command:
                return dict(command)
    return None


def _refusal(error: EdgeError) -> dict[str, Any]:
    return {"status": "error" if error.retryable else "rejected", "error": error.as_dict()}


def _at_once(answer: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
    future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    future.set_result(answer)
    return future


def _line(answer: dict[str, Any]) -> bytes:
    return orjson.dumps(answer) + b"\n"

"""A device for the tests of the edge: the daemon as a process, a producer, and a memory of what was promised."""

import asyncio
import contextlib
import random
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from tests.adversity.conftest import STRACE
from tests.edge.processes import Daemon, Server, settings
from tests.support.process import PATIENCE_SECONDS, environment


def envelope(event_id: str, rng: random.Random) -> bytes:
    """A whole event of random size, as the bytes that must arrive."""
    filling = rng.randbytes(rng.choice((5, 50, 50, 2000))).hex()
    body = {"schema_version": 1, "event_id": event_id, "type": "t", "ts": "2026-02-16T23:10:21Z", "session_id": "s"}
    return orjson.dumps({**body, "device_id": "pi-1", "payload": {"filling": filling}})


class Refused(Exception):
    """The daemon cannot take an event now."""


class Device:
    """Puts events through the daemon's socket. What was answered is promised; what was not may be there or not."""

    def __init__(self, path: Path, server_url: str, rng: random.Random, prefix: str = "evt") -> None:
        self.path = path
        self.url = server_url
        self._rng = rng
        self._prefix = prefix
        self._number = 0
        self.promised: dict[str, bytes] = {}
        self.doubted: dict[str, bytes] = {}
        self.daemon: Daemon | None = None
        self.progress = asyncio.Event()

    async def start(self, **env: str) -> None:
        """Switch it on."""
        self.daemon = Daemon(self.path, self.url, env)
        await asyncio.to_thread(self.daemon.ready)

    def start_under(self, strace: Sequence[str]) -> Daemon:
        """Switch it on under strace, which fails or kills it at a system call; not waited for."""
        self.daemon = Daemon(self.path, self.url, tracer=[*STRACE, *strace])
        return self.daemon

    def kill(self) -> None:
        """Pull the plug."""
        if self.daemon is not None:
            self.daemon.kill()

    async def produce(self, count: int) -> None:
        """Put what is in doubt and then so many new events, pipelined, until that is done or the daemon is gone."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_unix_connection(f"{self.path}.sock")
            try:
                for _ in range(0, count, 10):
                    await self._page(reader, writer)
            finally:
                writer.close()

    async def _page(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(10):
            self._number += 1
            event_id = f"{self._prefix}_{self._number}"
            self.doubted[event_id] = envelope(event_id, self._rng)
        waiting = dict(self.doubted)
        writer.write(b"".join(line + b"\n" for line in waiting.values()))
        for event_id, line in waiting.items():
            answer = orjson.loads(await reader.readuntil(b"\n"))
            if "error" in answer and answer["error"]["retryable"]:
                raise Refused(answer["error"])
            assert (answer["event_id"], answer["status"]) == (event_id, "queued"), answer
            assert "payload_conflict" not in answer
            self.promised[event_id] = line
            del self.doubted[event_id]
            self.progress.set()

    async def drain(self) -> None:
        """Wait until the server has everything."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            reader, writer = await asyncio.open_unix_connection(f"{self.path}.sock")
            try:
                writer.write(b'{"command":"drain"}\n')
                left = orjson.loads(await reader.readuntil(b"\n"))
                assert left == {"waiting": 0, "rejected": 0}, left
            finally:
                writer.close()

    def check(self, server: Server) -> int:
        """Everything that was promised is there once, with identical bytes, and nothing that nobody put; how many."""
        stored = server.stored()
        by_id = dict(stored)
        assert len(by_id) == len(stored), "an event is stored twice"
        lost = {each for each, line in self.promised.items() if by_id.get(each) != line}
        assert not lost, f"{len(lost)} of {len(self.promised)} are lost or altered, such as {sorted(lost)[:3]}"
        put = {**self.promised, **self.doubted}
        invented = {each for each, line in stored if put.get(each) != line}
        assert not invented, f"{sorted(invented)[:3]} were never put like this"
        return len(stored)


class Aim(NamedTuple):
    """Where a device kills itself with -9: at a call of a method, before it or after it."""

    owner: str
    method: str
    call: int
    after: bool


class ForkedDevice(Device):
    """The same, forked from a process that has everything imported (`nursery.py`): for hundreds of lives."""

    _nursery: Process | None = None

    async def be_born(self, aim: Aim | None = None) -> None:
        """Switch it on."""
        if self._nursery is None:
            command = (sys.executable, "-m", "tests.adversity.nursery")
            self._nursery = await create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment())
        self._order({"environment": settings(self.path, self.url), "aim": aim and list(aim)})
        line = await self._line()
        assert line.startswith("courier-edge takes events on "), f"{aim}: {line}"

    def pull_the_plug(self) -> None:
        """kill -9, from outside."""
        self._order({})

    async def ended(self) -> int:
        """Wait for its end; how it ended."""
        word, _, code = (await self._line()).partition(" ")
        assert word == "ended"
        return int(code)

    async def leave(self) -> None:
        """Leave no process behind."""
        if self._nursery is not None:
            assert self._nursery.stdin is not None
            self._nursery.stdin.close()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._nursery.communicate()
            self._nursery = None

    def _order(self, order: dict[str, object]) -> None:
        assert self._nursery is not None
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(orjson.dumps(order) + b"\n")

    async def _line(self) -> str:
        assert self._nursery is not None
        assert self._nursery.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self._nursery.stdout.readline()).decode().strip()


class Proxy:
    """A line to the server that can be cut, or that lets nothing back to the device."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.Task[None]] = set()
        self.swallow_answers = False
        self.swallowed = 0
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"ws://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        """How many lines are open."""
        return len(self._pairs)

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Cut every line; the next ones are taken as before."""
        for task in tuple(self._pairs):
            task.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    async def close(self) -> None:
        """Listen no more, and cut every line."""
        if self._server is not None:
            self._server.close()
        await self.cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs.add(task)
        self.connections += 1
        there: asyncio.StreamWriter | None = None
        try:
            back, there = await asyncio.open_connection("127.0.0.1", self._target)
            first = await back_of(reader, there, back, writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, there))
                both.create_task(self._answers(back, writer, first))
        except (OSError, asyncio.CancelledError, ExceptionGroup, EOFError):
            pass  # cut, by one side or the test
        finally:
            self._pairs.discard(task)
            for each in (writer, there):
                if each is not None:
                    each.transport.abort()

    async def _answers(self, back: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes) -> None:
        writer.write(first)
        while data := await back.read(65536):
            if self.swallow_answers:
                self.swallowed += len(data)
            else:
                writer.write(data)
                await writer.drain()
        raise EOFError


async def back_of(
    reader: asyncio.StreamReader, there: asyncio.StreamWriter, back: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bytes:
    """Let the handshake and the window through, whatever is swallowed later."""
    there.write(await reader.readuntil(b"\r\n\r\n"))
    writer.write(await back.readuntil(b"\r\n\r\n"))
    return await back.readuntil(b"}")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    raise EOFError

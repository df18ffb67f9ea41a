"""A pipe over two descriptors: lines in, lines out, and an orderly end."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker import Broker
from broker.embedded import stdio
from broker.embedded.duplex import Duplex
from broker.limits import STDIO_LINE_BYTES_MAX
from tests.embedded.conftest import core_of, enqueue, ids
from tests.support import leaks
from tests.support.events import STREAM, envelope
from tests.support.pipe import enqueue_line
from tests.support.writer import eventually

PATIENCE_SECONDS = 20.0


class Parent:
    """Whoever started the pipe: it writes to its input, and reads its output."""

    def __init__(self, write_end: int, read_end: int, stop: asyncio.Event) -> None:
        self.write_end = write_end
        self._read_end = read_end
        self.stop = stop
        self._rest = b""

    async def say(self, *lines: bytes) -> None:
        await asyncio.to_thread(self._write, b"".join(lines))

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.write_end, rest) :]

    def end_of_input(self) -> None:
        os.close(self.write_end)
        self.write_end = -1

    async def hear(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(await self._line()) for _ in range(count)]

    async def _line(self) -> bytes:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"\n" not in self._rest:
                data = await asyncio.to_thread(os.read, self._read_end, 65536)
                assert data, "the output has ended"
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    async def hear_to_the_end(self) -> list[dict[str, Any]]:
        whole = self._rest
        async with asyncio.timeout(PATIENCE_SECONDS):
            while data := await asyncio.to_thread(os.read, self._read_end, 65536):
                whole += data
        return [json.loads(line) for line in whole.splitlines()]

    def stop_reading(self) -> None:
        os.close(self._read_end)
        self._read_end = -1

    def close(self) -> None:
        for descriptor in (self.write_end, self._read_end):
            if descriptor >= 0:
                os.close(descriptor)


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[tuple[Parent, "asyncio.Task[None]"]]:
    """A pipe of a broker over two pipes of the system."""
    stdin, write_end = os.pipe()
    read_end, stdout = os.pipe()
    stop = asyncio.Event()
    parent = Parent(write_end, read_end, stop)
    serving = asyncio.create_task(_serve(broker.pipe()._duplex, stdin, stdout, stop))
    try:
        yield parent, serving
    finally:
        stop.set()
        parent.close()
        await serving


async def _serve(duplex: Duplex, stdin: int, stdout: int, stop: asyncio.Event) -> None:
    try:
        await stdio.run(duplex, stdin, stdout, stop)
    finally:
        os.close(stdin)
        os.close(stdout)


async def test_lines_go_in_and_come_out(broker: Broker) -> None:
    async with running(broker) as (parent, _):
        await parent.say(b'{"subscribe": {"stream": "agents/*/inbox", "window": 4}}\n', enqueue_line("e-1"))
        messages = await parent.hear(2)
        delivered = next(message for message in messages if "deliver" in message)
        assert delivered["deliver"] == envelope("e-1")
        await parent.say(b'{"ack": %d}\n' % delivered["seq"])
        await eventually(lambda: broker.stats(STREAM)["totals"]["ack"] == 1)


async def test_a_bad_line_is_answered_with_its_number_and_the_next_line_works(broker: Broker) -> None:
    async with running(broker) as (parent, _):
        await parent.say(
            b"\n  \n", b"nonsense\r\n", enqueue_line("e-1"), b'{"ack": 7}\n', b"\xff\n", enqueue_line("e-2")
        )
        messages = await parent.hear(5)
    assert sorted(each["error"]["line"] for each in messages if "error" in each) == [3, 5, 6]
    assert [each["enqueued"]["id"] for each in messages if "enqueued" in each] == ["e-1", "e-2"]


async def test_a_line_past_the_bound_is_answered_once_and_the_next_line_works(memory: Broker) -> None:
    async with running(memory) as (parent, _):
        await parent.say(b'{"enqueue": "%b"}\n' % (b"x" * STDIO_LINE_BYTES_MAX), enqueue_line("e-1"))
        messages = await parent.hear(2)
    assert (messages[0]["error"]["code"], messages[0]["error"]["line"]) == ("too_large", 1)
    assert messages[1]["enqueued"]["id"] == "e-1"


async def test_the_end_of_input_answers_every_event_and_gives_back_what_was_leased(broker: Broker) -> None:
    async with running(broker) as (parent, serving):
        await parent.say(b'{"subscribe": "%b"}\n' % STREAM.encode())
        await parent.say(*(enqueue_line(f"e-{number}") for number in range(100)), b'{"credit": 5}')
        parent.end_of_input()
        messages = await parent.hear_to_the_end()
        await serving
    assert [each["enqueued"]["id"] for each in messages if "enqueued" in each] == ids(100)
    figures = broker.stats(STREAM)
    assert (figures["depth"], figures["inflight"], figures["subscribers"]) == (100, 0, 0)


async def test_a_stop_drains_like_the_end_of_input_although_the_input_is_open(broker: Broker) -> None:
    async with running(broker) as (parent, serving):
        await parent.say(*(enqueue_line(f"e-{number}") for number in range(50)))
        first = await parent.hear(1)
        parent.stop.set()
        messages = first + await parent.hear_to_the_end()
        await serving
    answered = [each["enqueued"]["id"] for each in messages]
    assert answered == ids(len(answered))
    assert broker.stats(STREAM)["depth"] == len(answered)


async def test_when_nobody_reads_any_more_it_ends_and_what_was_kept_is_kept(broker: Broker) -> None:
    async with running(broker) as (parent, serving):
        await parent.say(enqueue_line("e-0"))
        await parent.hear(1)
        parent.stop_reading()
        await parent.say(enqueue_line("e-1"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await serving
    assert broker.stats(STREAM)["depth"] == 2


async def test_a_parent_that_does_not_read_holds_up_neither_the_loop_nor_more_than_the_window(broker: Broker) -> None:
    size, window = 100_000, 4
    await broker.enqueue_many([(STREAM, envelope(each, payload="x" * size)) for each in ids(100)])
    async with running(broker) as (parent, _):
        await parent.say(b'{"subscribe": {"stream": "%b", "window": %d}}\n' % (STREAM.encode(), window))
        await eventually(lambda: broker.stats(STREAM)["inflight"] >= window)
        await broker.enqueue(STREAM, 1, id="the loop runs")
        for _ in range(100):
            await asyncio.sleep(0)
        in_a_chunk = 262_144 // size + 1
        assert broker.stats(STREAM)["inflight"] <= in_a_chunk + window
        seen = []
        while len(seen) < 101:
            (message,) = await parent.hear(1)
            seen.append(message["deliver"]["id"])
            await parent.say(b'{"ack": %d}\n' % message["seq"])
    assert seen == [*ids(100), "the loop runs"]


async def test_a_sender_that_does_not_read_its_answers_is_not_read_either(memory: Broker) -> None:
    async with running(memory) as (parent, _):
        flood = threading.Event()

        def write() -> None:
            parent._write(b"".join(b"nonsense %d\n" % number for number in range(40_000)))
            flood.set()

        writing = asyncio.create_task(asyncio.to_thread(write))
        (duplex,) = memory._duplexes
        await eventually(lambda: len(duplex._outbox) >= 9_000)
        assert not flood.is_set()
        assert len(duplex._outbox) <= 10_000
        messages = await parent.hear(40_000)
        assert [each["error"]["line"] for each in messages] == list(range(1, 40_001))
        await writing


async def test_a_plain_file_can_be_the_input_and_another_the_output(broker: Broker, tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_bytes(enqueue_line("e-1") + enqueue_line("e-2")[:-1])
    stdin, stdout = os.open(source, os.O_RDONLY), os.open(sink, os.O_WRONLY | os.O_CREAT)
    await _serve(broker.pipe()._duplex, stdin, stdout, asyncio.Event())
    assert [json.loads(line)["enqueued"]["id"] for line in sink.read_bytes().splitlines()] == ["e-1", "e-2"]


async def test_sockets_stay_blocking_for_whoever_shares_them(memory: Broker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stop = asyncio.Event()
        serving = asyncio.create_task(stdio.run(memory.pipe()._duplex, ours.fileno(), ours.fileno(), stop))
        await asyncio.to_thread(theirs.sendall, enqueue_line("e-1"))
        assert b"enqueued" in await asyncio.to_thread(theirs.recv, 1000)
        assert os.get_blocking(ours.fileno())
        stop.set()
        await serving


async def test_nothing_is_left_over_when_it_has_ended(memory: Broker) -> None:
    before, tasks = leaks.Held(), asyncio.all_tasks()
    stdin, write_end = os.pipe()
    read_end, stdout = os.pipe()
    os.write(write_end, enqueue_line("e-1"))
    os.close(write_end)
    await _serve(memory.pipe()._duplex, stdin, stdout, asyncio.Event())
    os.close(read_end)
    assert before.left_over() == []
    assert asyncio.all_tasks() == tasks


async def test_an_output_that_cannot_be_written_is_an_error_and_the_events_are_kept(tmp_path: Path) -> None:
    async with Broker.open(tmp_path / "data") as broker:
        stdin, write_end = os.pipe()
        stdout = os.open("/dev/full", os.O_WRONLY)
        os.write(write_end, enqueue_line("e-1"))
        with pytest.raises(OSError, match="No space left"):
            await _serve(broker.pipe()._duplex, stdin, stdout, asyncio.Event())
        os.close(write_end)
        assert core_of(broker).journal.health.events == 1
        await enqueue(broker, "e-2")

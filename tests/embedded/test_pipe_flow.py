"""A pipe inside a program: neither side runs away from the other, and its end is orderly."""

import asyncio
from pathlib import Path

import orjson
import pytest

from broker import Broker
from broker.errors import Draining
from broker.limits import PIPE_ANSWERS_MAX, PIPE_ANSWERS_SETTLING_MAX
from tests.embedded.conftest import core_of, depth_and_inflight, enqueue, error, ids, one, read, request
from tests.support.events import STREAM, raw_envelope
from tests.support.writer import eventually, held_writer


async def test_a_sender_whose_answers_are_not_read_waits_at_their_bound(memory: Broker) -> None:
    async with memory.pipe() as pipe:

        async def send_all() -> None:
            for number in range(PIPE_ANSWERS_MAX + 10):
                await pipe.send(b"nonsense %d" % number)

        sending = asyncio.create_task(send_all())
        await eventually(lambda: len(pipe._duplex._outbox) == PIPE_ANSWERS_MAX)
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert (len(pipe._duplex._outbox), sending.done()) == (PIPE_ANSWERS_MAX, False)
        found = [await error(pipe) for _ in range(PIPE_ANSWERS_MAX + 10)]
        assert [each["line"] for each in found] == list(range(1, PIPE_ANSWERS_MAX + 11))
        await sending


async def test_a_reader_settles_what_it_has_read_while_another_task_waits_for_room(memory: Broker) -> None:
    await enqueue(memory, "e-1", "e-2", "e-3", "e-4")
    async with memory.pipe(STREAM, window=4) as pipe:
        messages = await read(pipe, 4)

        async def send_all() -> None:
            for number in range(PIPE_ANSWERS_MAX + 1):
                await pipe.send(b"nonsense %d" % number)

        sending = asyncio.create_task(send_all())
        await eventually(lambda: len(pipe._duplex._outbox) == PIPE_ANSWERS_MAX)
        await pipe.send({"ack": messages[0]["seq"]})
        await pipe.send({"nack": messages[1]["seq"]})
        await pipe.send({"extend": messages[2]["seq"], "leaseMs": 60_000})
        assert (depth_and_inflight(memory), sending.done()) == ((0, 3), False)
        await read(pipe, PIPE_ANSWERS_MAX + 2)
        await sending


async def test_a_reader_whose_own_errors_are_not_read_waits_too(memory: Broker) -> None:
    async with memory.pipe(STREAM) as pipe:

        async def ack_all() -> None:
            for _ in range(PIPE_ANSWERS_SETTLING_MAX + 10):
                await pipe.send(b'{"ack":1}')

        acking = asyncio.create_task(ack_all())
        await eventually(lambda: len(pipe._duplex._outbox) == PIPE_ANSWERS_SETTLING_MAX)
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert (len(pipe._duplex._outbox), acking.done()) == (PIPE_ANSWERS_SETTLING_MAX, False)
        await read(pipe, PIPE_ANSWERS_SETTLING_MAX + 10)
        await acking


async def test_a_full_ingest_queue_makes_the_sender_wait(tmp_path: Path) -> None:
    async with Broker.open(tmp_path, {"journal": {"queueMax": 1}}) as broker, broker.pipe() as pipe:
        async with held_writer(core_of(broker)) as release:
            await pipe.send({"enqueue": request("e-1")})
            sending = asyncio.create_task(pipe.send({"enqueue": request("e-2")}))
            await eventually(lambda: core_of(broker).journal.health.saturations == 1)
            assert not sending.done()
            release.set()
        await sending
        assert [each["enqueued"]["seq"] for each in await read(pipe, 2)] == [1, 2]


async def test_close_waits_for_the_commit_and_the_answers_can_still_be_read(durable: Broker) -> None:
    pipe = durable.pipe(STREAM)
    async with held_writer(core_of(durable)) as release:
        for number in range(3):
            await pipe.send({"enqueue": request(f"e-{number}")})
        closing = asyncio.create_task(pipe.close())
        await asyncio.sleep(0)
        assert not closing.done()
        release.set()
        await closing
    assert [message["enqueued"]["id"] async for message in pipe] == ids(3)
    with pytest.raises(Draining, match="this pipe is closed"):
        await pipe.send({"ack": "e-1"})
    assert depth_and_inflight(durable) == (3, 0)


async def test_what_was_not_read_goes_back_without_an_attempt(broker: Broker) -> None:
    await enqueue(broker, "e-1", "e-2")
    async with broker.pipe(STREAM) as pipe:
        await one(pipe)
    async with broker.pipe(STREAM) as pipe:
        assert [(each["deliver"]["id"], each["attempt"]) for each in await read(pipe, 2)] == [("e-1", 2), ("e-2", 1)]


async def test_a_sender_that_waits_is_told_that_its_pipe_was_closed(memory: Broker) -> None:
    pipe = memory.pipe()
    for number in range(PIPE_ANSWERS_MAX):
        await pipe.send(b"nonsense %d" % number)
    sending = asyncio.create_task(pipe.send(b"one more"))
    await asyncio.sleep(0)
    await pipe.close()
    with pytest.raises(Draining):
        await sending


async def test_a_cancelled_read_loses_no_message(broker: Broker) -> None:
    async with broker.pipe(STREAM) as pipe:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await anext(pipe)
        await enqueue(broker, "e-1")
        assert (await one(pipe))["deliver"]["id"] == "e-1"


async def test_closing_the_broker_ends_its_pipes(data_dir: Path | None) -> None:
    broker = await Broker.open(data_dir)
    pipe = broker.pipe(STREAM)
    reading = asyncio.create_task(anext(pipe, "the end"))
    await asyncio.sleep(0)
    await broker.close()
    assert await reading == "the end"


async def test_when_the_journal_fails_that_is_the_last_message(tmp_path: Path) -> None:
    broker = await Broker.open(tmp_path)
    pipe = broker.pipe(STREAM)
    reading = asyncio.create_task(one(pipe))
    await asyncio.sleep(0)
    core_of(broker).journal.health.failed("the disk is gone")
    assert (await reading)["error"]["code"] == "storage_failed"
    assert [message async for message in pipe] == []
    with pytest.raises(Exception, match="the disk is gone"):
        await broker.close()


async def test_what_python_cannot_hold_is_an_error_that_names_it_and_a_line_has_it(broker: Broker) -> None:
    receipt = await broker.enqueue_envelope(STREAM, raw_envelope("e-1", b"1e400"))
    async with broker.pipe(STREAM) as pipe:
        found = await error(pipe)
        assert (found["code"], found["seq"]) == ("invalid_envelope", receipt.seq)
    async with broker.pipe(STREAM) as pipe:
        assert b'"payload": 1e400}' in await pipe.read_lines()


async def test_lines_hold_one_message_each_however_an_envelope_was_written(broker: Broker) -> None:
    raw = raw_envelope("e-1", '{\r\n  "a":\n "x\u2028\u2029y\\n"}'.encode())
    await broker.enqueue_envelope(STREAM, raw)
    async with broker.pipe(STREAM) as pipe:
        lines = await pipe.read_lines()
    assert len(lines.decode().splitlines()) == 1
    assert orjson.loads(lines)["deliver"] == orjson.loads(raw)


async def test_a_chunk_of_lines_is_bounded(broker: Broker) -> None:
    await enqueue(broker, *ids(50))
    async with broker.pipe(STREAM, window=50) as pipe:
        first = await pipe.read_lines(bytes_max=1)
        assert first.count(b"\n") == 1
        assert (await pipe.read_lines()).count(b"\n") == 49


async def test_a_program_that_only_sends_and_reads_lets_others_run(memory: Broker) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    async with memory.pipe() as pipe:
        for number in range(1_000):
            await pipe.send({"enqueue": request(f"e-{number}")})
            await anext(pipe)
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)
    assert turns > 10

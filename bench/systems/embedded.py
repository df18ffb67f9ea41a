"""The broker inside this process: events go through it by calls, or through a pipe of it."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench.failure import BenchmarkFailed
from bench.load.drive import Timed, no_collections
from bench.load.events import Shape
from bench.turns import Turn
from broker import Broker

CREDIT = 10_000
PIPE_EVENTS = 100
_DELIVERED = re.compile(rb',"attempt":1,"seq":(\d+)\}')

Cycle = Callable[[Broker, Sequence[bytes], Shape], Awaitable[list[bytes]]]
"""Puts envelopes in, takes them out and acknowledges them; returns what was delivered."""


@contextmanager
def broker_inside(directory: Path | None, shape: Shape, cycle: Cycle) -> Iterator[Turn]:
    """A broker with its journal in this directory, or in memory, for rounds of this kind."""
    config: dict[str, Any] = {"streams": {"maxDepth": 10_000_000}}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def opened() -> Broker:
            return await Broker.open(directory, config)

        broker = runner.run(opened())
        try:

            def turn(first: int, count: int) -> Timed:
                return runner.run(_timed(broker, shape.envelopes(range(first, first + count)), shape, cycle))

            yield turn
        finally:
            runner.run(broker.close())


async def _timed(broker: Broker, envelopes: Sequence[bytes], shape: Shape, cycle: Cycle) -> Timed:
    with no_collections():
        started = time.perf_counter()
        delivered = await cycle(broker, envelopes, shape)
        seconds = time.perf_counter() - started
    if Counter(delivered) != Counter(envelopes):
        raise BenchmarkFailed(f"{len(envelopes)} events were put in, and {len(delivered)} others came out")
    stats = broker.stats(shape.stream)
    if stats["depth"] or stats["inflight"]:
        raise BenchmarkFailed(f"all was acknowledged, but {stats['depth']} wait and {stats['inflight']} are held")
    return Timed(seconds, 0.0)


def by_many(per_call: int) -> Cycle:
    """`enqueue_many` beside a reader that takes and acknowledges as many."""

    async def cycle(broker: Broker, envelopes: Sequence[bytes], shape: Shape) -> list[bytes]:
        calls = [
            [(shape.stream, envelope) for envelope in envelopes[at : at + per_call]]
            for at in range(0, len(envelopes), per_call)
        ]

        async def put() -> None:
            for call in calls:
                await broker.enqueue_many(call)

        return await _while_reading(broker, shape, len(envelopes), per_call, put())

    return cycle


def by_callers(callers: int) -> Cycle:
    """So many callers of `enqueue_envelope`, each of which waits for its receipt, beside a reader."""

    async def cycle(broker: Broker, envelopes: Sequence[bytes], shape: Shape) -> list[bytes]:
        async def put(own: Sequence[bytes]) -> None:
            for envelope in own:
                await broker.enqueue_envelope(shape.stream, envelope)

        async def put_all() -> None:
            await asyncio.gather(*(put(envelopes[caller::callers]) for caller in range(callers)))

        return await _while_reading(broker, shape, len(envelopes), 100, put_all())

    return cycle


async def _while_reading(broker: Broker, shape: Shape, count: int, limit: int, putting: Awaitable[None]) -> list[bytes]:
    delivered: list[bytes] = []
    async with broker.subscribe(shape.stream, credit=CREDIT) as reader:
        task = asyncio.ensure_future(putting)
        while len(delivered) < count:
            taken = await reader.take(limit)
            if await reader.ack_many(taken):
                raise BenchmarkFailed("an event that was just delivered was not held any more")
            delivered += [delivery.raw for delivery in taken]
        await task
    return delivered


async def by_pipe(broker: Broker, envelopes: Sequence[bytes], shape: Shape) -> list[bytes]:
    """A pipe: enqueues in arrays, deliveries and answers as lines, acks for what one read brought."""
    head = b'{"to":"%b","envelope":' % shape.stream.encode()
    requests = [head + envelope + b"}" for envelope in envelopes]
    commands = [
        b'{"enqueue":[%b]}' % b",".join(requests[at : at + PIPE_EVENTS]) for at in range(0, len(requests), PIPE_EVENTS)
    ]
    delivered: list[bytes] = []
    answered = 0
    async with broker.pipe(shape.stream, window=CREDIT) as pipe:

        async def put() -> None:
            for command in commands:
                await pipe.send(command)

        task = asyncio.ensure_future(put())
        while len(delivered) < len(envelopes) or answered < len(envelopes):
            lines = await pipe.read_lines()
            answered += lines.count(b'{"enqueued":')
            found = list(_DELIVERED.finditer(lines))
            if found:
                delivered += [lines[each.start() - shape.size : each.start()] for each in found]
                await pipe.send(b'{"ack":[%b]}' % b",".join(each[1] for each in found))
        await task
    return delivered

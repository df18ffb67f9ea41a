"""Inside one program: the broker by calls and by pipe, and the queues that one would take instead."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from bench.load.events import Shape
from bench.results import Table, table_of
from bench.settings import Settings
from bench.systems import embedded, libraries
from bench.turns import Contender, Turn, in_turns

MEMORY_CALL = 1_000

LIBRARIES: dict[str, tuple[Callable[[Path, Shape], AbstractContextManager[Turn]], str]] = {
    "litequeue": (libraries.litequeue, "no dedupe, no leases that run out; one commit for each of put, pop and done"),
    "persist-queue": (libraries.persist_queue, "SQLiteAckQueue: no dedupe; one commit for each of put, get and ack"),
    "huey": (libraries.huey, "its storage alone: no dedupe; a task is deleted when it is taken, so a crash loses it"),
}


def library(name: str, shape: Shape) -> Contender:
    """A queue of another library."""
    start, note = LIBRARIES[name]
    return Contender(name, lambda directory: start(directory, shape), note=note)


def _inside(name: str, shape: Shape, cycle: embedded.Cycle, step: int, *, durable: bool = True) -> Contender:
    return Contender(name, lambda directory: embedded.broker_inside(directory if durable else None, shape, cycle), step)


def durable(settings: Settings) -> Iterator[Table]:
    """Each event synced, put in, taken out and done."""
    shape = Shape()
    contenders = [
        _inside("Courier, one caller", shape, embedded.by_callers(1), 1),
        _inside("Courier, 100 callers", shape, embedded.by_callers(100), 100),
        _inside("Courier, 100 a call", shape, embedded.by_many(100), 100),
        _inside("Courier, a pipe", shape, embedded.by_pipe, embedded.PIPE_EVENTS),
        *(library(name, shape) for name in LIBRARIES),
    ]
    yield table_of(
        "in-process",
        "Inside a program, durable",
        f"Events of {shape.size} bytes are put in, taken out and acknowledged by one program. The libraries have one "
        "caller, who puts all in and then takes all out; beside it stands the broker with one caller.",
        in_turns(contenders, settings.plan, settings.directory),
    )


def memory(settings: Settings) -> Iterator[Table]:
    """The same without a journal."""
    shape = Shape()
    contenders = [
        _inside(f"Courier, {MEMORY_CALL:,} a call", shape, embedded.by_many(MEMORY_CALL), MEMORY_CALL, durable=False),
        _inside("Courier, 100 callers", shape, embedded.by_callers(100), 100, durable=False),
        _inside("Courier, a pipe", shape, embedded.by_pipe, embedded.PIPE_EVENTS, durable=False),
    ]
    yield table_of(
        "in-process-memory",
        "Inside a program, in memory",
        f"Events of {shape.size} bytes are enqueued, delivered and acknowledged inside one program, without a journal.",
        in_turns(contenders, settings.plan, settings.directory),
    )

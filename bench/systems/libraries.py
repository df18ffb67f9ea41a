"""Queues in SQLite that run inside a program, with a sync for every commit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.failure import BenchmarkFailed, NotInstalled
from bench.load.drive import Timed, no_collections
from bench.load.events import Shape
from bench.turns import Turn

FULL = 2


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise NotInstalled(f"{name} is not installed: make bench-peers") from None


def _turn(shape: Shape, put: Callable[[str], object], take: Callable[[], str]) -> Turn:
    """All put, then all taken and done, by one caller; each call is a commit."""

    def turn(first: int, count: int) -> Timed:
        texts = [envelope.decode() for envelope in shape.envelopes(range(first, first + count))]
        with no_collections():
            started = time.perf_counter()
            for text in texts:
                put(text)
            taken = [take() for _ in texts]
            seconds = time.perf_counter() - started
        if taken != texts:
            raise BenchmarkFailed(f"{count} events were put in, and others came out")
        return Timed(seconds, 0.0)

    return turn


def _check_synced(connection: Any) -> None:
    if connection.execute("PRAGMA synchronous").fetchone()[0] < FULL:
        raise BenchmarkFailed("this queue would acknowledge before the sync")


@contextmanager
def litequeue(directory: Path, shape: Shape) -> Iterator[Turn]:
    """litequeue, told to sync every commit: by itself it does not."""
    queue = _module("litequeue").LiteQueue(str(directory / "queue.db"))
    queue.conn.execute("PRAGMA synchronous = FULL")
    _check_synced(queue.conn)

    def take() -> str:
        message = queue.pop()
        queue.done(message.message_id)
        text: str = message.data
        return text

    yield _turn(shape, queue.put, take)
    queue.close()


@contextmanager
def persist_queue(directory: Path, shape: Shape) -> Iterator[Turn]:
    """persist-queue's SQLiteAckQueue."""
    queue = _module("persistqueue").SQLiteAckQueue(str(directory), auto_commit=True)
    _check_synced(queue._conn)

    def take() -> str:
        item: str = queue.get(block=False)
        queue.ack(item)
        return item

    yield _turn(shape, queue.put, take)
    queue.close()


@contextmanager
def huey_storage(directory: Path) -> Iterator[Any]:
    """The storage of huey, without its tasks around it: fsync, and first in, first out."""
    storage = _module("huey.storage").SqliteStorage(
        "bench", filename=str(directory / "huey.db"), fsync=True, strict_fifo=True
    )
    _check_synced(storage.conn)
    yield storage
    storage.close()


@contextmanager
def huey(directory: Path, shape: Shape) -> Iterator[Turn]:
    """What is put into the queue of huey's storage, and taken out."""
    with huey_storage(directory) as storage:
        yield _turn(shape, lambda text: storage.enqueue(text.encode()), lambda: bytes(storage.dequeue()).decode())

"""The contenders of the journal benchmark: the journal itself, and what it is measured against.

All of them write the same events into the same schema with the same settings, and end when everything is
committed. A contender is given a directory and lists of events, one list a batch, and returns the seconds.
"""

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from broker.clock import SystemClock
from broker.config import Journal as JournalConfig
from broker.contracts.inbound import InboundEvent
from broker.journal import statements
from broker.journal.connection import FILE_NAME, open_writer
from broker.journal.journal import Journal
from broker.journal.submission import Submission
from broker.journal.writer import attach_committer

Batches = list[list[InboundEvent]]
Contender = Callable[[Path, Batches], float]

ENVELOPE = b'{"id":"e","ts":"2026-02-19T18:14:02Z","to":"bench/in","type":"t","payload":"' + b"x" * 223 + b'"}'
DIGEST = hashlib.sha256(ENVELOPE).digest()


def make_events(
    start: int, count: int, name: Callable[[int], str] = "e-{:012d}".format, stream: str = "bench/in"
) -> list[InboundEvent]:
    """Events of 300 bytes with ids in the order of time, unless `name` says otherwise."""
    return [
        InboundEvent("courier", stream, "t", f"stream:{stream}", name(n), 1_771_524_842_000_000 + n, ENVELOPE, DIGEST)
        for n in range(start, start + count)
    ]


def in_batches(events: list[InboundEvent], size: int) -> Batches:
    """Cut events into batches."""
    return [events[at : at + size] for at in range(0, len(events), size)]


def bare_executemany(directory: Path, batches: Batches) -> float:
    """What a good programmer writes first: apsw's executemany in a transaction."""
    connection = open_writer(directory / FILE_NAME, synchronous="full")
    connection.pragma("wal_autocheckpoint", 1000)
    first: int = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM ledger").get
    rows = iter(range(first, first + sum(map(len, batches))))
    values = [[(next(rows), *event) for event in batch] for batch in batches]
    started = time.perf_counter()
    for batch in values:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(statements.INSERT_EVENT, batch)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


def bare_loop(directory: Path, batches: Batches) -> float:
    """The C loop alone, called in a row: no threads, no queue, no answers."""
    connection = open_writer(directory / FILE_NAME, synchronous="full")
    connection.pragma("wal_autocheckpoint", 1000)
    committer = attach_committer(connection)
    next_seq: int = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM ledger").get
    started = time.perf_counter()
    for batch in batches:
        next_seq = committer.write(batch, [], next_seq, True).next_seq
    seconds = time.perf_counter() - started
    committer.close()
    connection.close()
    return seconds


def through_journal(directory: Path, batches: Batches) -> float:
    """The journal: queue, writer thread, group commits, an answer for every submission."""

    async def run() -> float:
        journal = await Journal.open(directory, JournalConfig(), SystemClock())
        finished = asyncio.get_running_loop().create_future()
        left = len(batches)

        def done(_outcome: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                finished.set_result(None)

        started = time.perf_counter()
        for batch in batches:
            if not journal.has_room(len(batch)):
                await journal.room(len(batch))
            journal.submit(Submission(batch, done))
        await finished
        seconds = time.perf_counter() - started
        await journal.close()
        return seconds

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


async def commit_latencies(directory: Path, count: int) -> list[float]:
    """Seconds from submission to answer, one event at a time."""
    journal = await Journal.open(directory, JournalConfig(), SystemClock())
    seconds = []
    for event in make_events(0, count):
        started = time.perf_counter()
        await journal.append([event])
        seconds.append(time.perf_counter() - started)
    await journal.close()
    return seconds


@contextmanager
def spinning_thread() -> Iterator[None]:
    """A Python thread that never lets go of the GIL by itself, as a busy event loop would be."""
    stop = threading.Event()

    def spin() -> None:
        stopped = stop.is_set
        while not stopped():
            pass

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()

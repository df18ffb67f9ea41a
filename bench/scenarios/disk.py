"""What the disk and the ledger do to it: a slow disk, a large ledger, a million events that wait."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import msgspec

from bench.failure import BenchmarkFailed
from bench.journal_load import in_batches, make_events
from bench.load.drive import Timed
from bench.load.events import Shape, event_id, scattered
from bench.results import Ratio, Row, Table, table_of
from bench.scenarios.end_to_end import ACKS_NOTE, Flow, broker_contender, text_of
from bench.scenarios.peers import peer_contender
from bench.scenarios.publish import over_sockets
from bench.settings import Settings
from bench.systems.courier import check_ledger, courier
from bench.systems.slow_disk import SYNC_MS, slow_disk
from bench.turns import Contender, Turn, in_turns
from bench.wire import websocket
from broker.journal.connection import FILE_NAME, open_writer
from broker.journal.writer import attach_committer

PER_FRAME = 100
SLICE = 100_000
GROWN_SHORT = (0, 100_000)
GROWN_FULL = (0, 100_000, 1_000_000, 10_000_000)
SCATTERED_ROWS = 2_000_000
IDLE_SECONDS = 5.0
MEMORY_MB_GOAL = 150


def slow(settings: Settings) -> Iterator[Table]:
    """Each sync takes 10 ms longer, for everybody who syncs through the C library."""
    flow = Flow()
    contenders = [
        broker_contender("Courier", flow, ACKS_NOTE, environment=slow_disk),
        *(peer_contender(name, flow, environment=slow_disk) for name in ("Redis Streams", "beanstalkd")),
    ]
    yield table_of(
        "slow-disk",
        f"On a disk whose sync takes {SYNC_MS} ms",
        f"{text_of(flow)} Every sync of these servers takes {SYNC_MS} ms longer, through a preloaded library. NATS "
        "is left out, since Go does not sync through the C library; so is RabbitMQ.",
        in_turns(contenders, replace(settings.plan, first_events=200), settings.directory),
    )


def _grow(directory: Path, rows: int, number_of: Callable[[int], int]) -> None:
    """A ledger with so many processed events, written by the bare loop."""
    (directory / "data").mkdir()
    connection = open_writer(directory / "data" / FILE_NAME, synchronous="normal")
    committer = attach_committer(connection)
    seq = 1
    for first in range(1, rows + 1, SLICE):
        events = make_events(
            first, min(SLICE, rows + 1 - first), lambda n: event_id(number_of(n)).decode(), Shape().stream
        )
        for batch in in_batches(events, 5_000):
            following = committer.write(batch, [], seq, True).next_seq
            connection.execute("UPDATE ledger SET state = 1 WHERE seq >= ?", (seq,))
            seq = following
        connection.pragma("wal_checkpoint(TRUNCATE)")
    committer.close()
    connection.close()


def _as_it_is(number: int) -> int:
    return number


def ledger(settings: Settings) -> Iterator[Table]:
    """How the rate holds when the ledger is large."""
    counts = GROWN_FULL if settings.full else GROWN_SHORT
    contenders = [_grown(f"{rows:,} rows", rows, _as_it_is) for rows in counts]
    if settings.full:
        contenders.append(_grown(f"{SCATTERED_ROWS:,} rows, random ids", SCATTERED_ROWS, scattered))
    standings = in_turns(contenders, settings.plan, settings.directory)
    table = table_of("ledger", "", "", standings)
    large, empty = standings[len(counts) - 1], standings[0]
    yield Table(
        name="ledger",
        title="By the size of the ledger",
        text=f"WS /v1/publish, {PER_FRAME} events a frame, into ledgers that have so many processed events already; "
        "ids are in the order of time, unless it says otherwise.",
        columns={**table.columns, "rows": "rows in the ledger"},
        rows=[
            msgspec.structs.replace(row, figures={**row.figures, "rows": float(rows)}) if rows is not None else row
            for row, rows in zip_longest(table.rows, counts)
        ],
        ratios=[Ratio(of=large.name, to=empty.name, value=large.ratio(empty), goal="≥ 0.8")],
        plot="curve",
        x="rows",
    )


def _grown(name: str, rows: int, number_of: Callable[[int], int]) -> Contender:
    @contextmanager
    def start(directory: Path) -> Iterator[Turn]:
        done = 0
        if rows:
            _grow(directory, rows, number_of)
        with courier(directory) as broker:
            plain = over_sockets(
                broker.port,
                lambda numbers: websocket.publishing(Shape(), [number_of(each) for each in numbers], PER_FRAME),
                PER_FRAME,
            )

            def turn(first: int, count: int) -> Timed:
                nonlocal done
                timed = plain(rows + first, count)
                done += count
                return timed

            yield turn
        check_ledger(directory, rows + done, unfinished=done)

    return Contender(name, start, PER_FRAME)


def waiting(settings: Settings) -> Iterator[Table]:
    """What a broker costs that nobody reads from: memory and, when nothing happens, time."""
    count = 1_000_000 if settings.full else max(1_000, round(100_000 * settings.plan.seconds))
    home = settings.directory / "waiting"
    home.mkdir()
    rows = []
    with courier(home) as broker:
        rows.append(_cost("started", broker.pid))
        turn = over_sockets(broker.port, lambda numbers: websocket.publishing(Shape(), numbers, PER_FRAME), PER_FRAME)
        turn(1, count)
        rows.append(_cost(f"{count:,} events wait", broker.pid))
    with courier(home) as broker:
        rows.append(_cost(f"started again, {count:,} events wait", broker.pid))
    check_ledger(home, count, unfinished=count)
    yield Table(
        name="waiting",
        title="Memory with events that wait, and time when nothing happens",
        text=f"{count:,} events of 300 bytes are published, and nobody reads them. Resident memory, its peak, and the "
        f"share of a core that the process takes in {IDLE_SECONDS:.0f} seconds without a connection. The goal is at "
        f"most {MEMORY_MB_GOAL} MB with a million.",
        columns={"rss": "resident, MB", "peak": "peak, MB", "idle": "idle, % of a core"},
        rows=rows,
    )


def _cost(name: str, pid: int) -> Row:
    before = _cpu_seconds(pid)
    time.sleep(IDLE_SECONDS)
    idle = (_cpu_seconds(pid) - before) / IDLE_SECONDS
    figures = {"rss": _kilobytes(pid, "VmRSS"), "peak": _kilobytes(pid, "VmHWM")}
    return Row(name=name, figures={**{key: kb * 1024 / 1e6 for key, kb in figures.items()}, "idle": 100 * idle})


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process, all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kilobytes(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1])
    raise BenchmarkFailed(f"/proc/{pid}/status has no {name}")

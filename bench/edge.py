"""How fast the edge is: puts a second, the drain of a backlog, and a fleet that comes back after an outage.

    python -m bench.edge puts                  one caller and fifty, on this disk
    python -m bench.edge drain --rows 100000   a backlog against a broker of its own
    python -m bench.edge fleet --outboxes 1000 all lose one broker and find it again; live events go on meanwhile

Each prints one line a figure. `fleet` also draws how many connections came in each second: with jitter the columns are
low and many, without it there is one high one.
"""

import argparse
import asyncio
import logging
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import apsw

from bench.load.paced import percentile
from edge import Edge, Outbox, Pace, limits
from tests.support.process import BrokerProcess

PAYLOAD = {"reading": 21.5, "filling": "x" * 150}
COLUMN_SECONDS = 1.0


def event(number: int, prefix: str = "evt") -> dict[str, Any]:
    """An event of some 300 bytes."""
    return {"event_id": f"{prefix}_{number}", "type": "reading", "payload": PAYLOAD}


@contextmanager
def broker(directory: Path, port: int = 0) -> Iterator[str]:
    """A broker of its own; its address without the scheme."""
    with BrokerProcess(directory / "broker", port=port) as process:
        yield f"127.0.0.1:{process.port}"
        process.terminate_and_wait()


async def puts(directory: Path, seconds: float) -> dict[int, float]:
    """Puts a second, with one caller and with fifty."""
    rates = {}
    for callers in (1, 50):
        async with Outbox(directory / f"puts-{callers}.db", device_id="bench") as outbox:
            done = 0
            end = time.perf_counter() + seconds

            async def call(caller: int, outbox: Outbox = outbox, end: float = end) -> None:
                nonlocal done
                number = 0
                while time.perf_counter() < end:
                    await outbox.put(event(number, f"evt_{caller}"))
                    number += 1
                    done += 1

            await asyncio.gather(*(call(caller) for caller in range(callers)))
        rates[callers] = done / seconds
    return rates


async def fill(outbox: Outbox, count: int, prefix: str = "evt") -> None:
    """Put so many, by thousands."""
    for start in range(0, count, 1000):
        await asyncio.gather(*(outbox.put(event(n, prefix)) for n in range(start, min(count, start + 1000))))


async def drain(directory: Path, rows: int) -> float:
    """How many events of a backlog reach the broker a second."""
    path = directory / "drain.db"
    async with Outbox(path, device_id="bench") as outbox:
        await fill(outbox, rows)
    with broker(directory) as address:
        async with Edge(f"ws://{address}", path=path, device_id="bench", pace=Pace(window=2000)) as edge:
            started = time.perf_counter()
            await edge.drained()
            took = time.perf_counter() - started
    _check(directory, rows)
    return rows / took


class Watch:
    """When lines were opened, and how long live events took from their put to the broker's commit."""

    def __init__(self) -> None:
        self.opened: list[float] = []
        self.back: dict[int, asyncio.Event] = {}
        self.put: dict[str, float] = {}
        self.latencies: list[float] = []

    async def follow(self, address: str, events: int) -> None:
        """See live events as they are committed, until all are."""
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"ws://{address}/v1/tail?stream=devices/**") as tail,
        ):
            async for message in tail:
                found = re.search(r'"event_id":"(live_[0-9_]+)"', message.data)
                if found is not None:
                    self.latencies.append(time.perf_counter() - self.put.pop(found[1]))
                if len(self.latencies) == events:
                    return

    def draw(self, since: float) -> None:
        """The connections that were tried, by time after the broker came back."""
        columns = Counter(int((each - since) / COLUMN_SECONDS) for each in self.opened if each >= since)
        for column in range(max(columns, default=0) + 1):
            print(f"{column * COLUMN_SECONDS:4.0f} s {columns[column]:4d} {'#' * (columns[column] // 2)}")


async def fleet(directory: Path, outboxes: int, backlog: int, outage_seconds: float) -> "Return":
    """Many outboxes lose their broker, gather a backlog, and find it again; each puts a live event as it does."""
    limits.RESERVE_BYTES = limits.KIB  # a thousand reserves are no part of this
    logging.getLogger("edge").setLevel(logging.ERROR)  # nor are the complaints of a thousand devices
    watch = Watch()
    async with AsyncExitStack() as running:
        with broker(directory) as address:
            edges = [await running.enter_async_context(_edge(directory, address, n, watch)) for n in range(outboxes)]
            await asyncio.gather(*(edge.put(event(0, f"first_{n}")) for n, edge in enumerate(edges)))
            await asyncio.gather(*(edge.drained() for edge in edges))
        for number, edge in enumerate(edges):
            await asyncio.gather(*(edge.put(event(n, f"old_{number}")) for n in range(backlog)))
        await asyncio.sleep(outage_seconds)
        with broker(directory, port=int(address.rpartition(":")[2])):
            back = time.perf_counter()
            watch.back = {number: asyncio.Event() for number in range(outboxes)}
            following = asyncio.create_task(watch.follow(address, outboxes))
            await asyncio.gather(*(_live(edge, number, watch) for number, edge in enumerate(edges)))
            await asyncio.gather(*(edge.drained() for edge in edges))
            took = time.perf_counter() - back
            await following
    _check(directory, outboxes * (backlog + 2))
    return Return(outboxes, backlog, outage_seconds, took, watch, back)


class Return(NamedTuple):
    """How a fleet came back."""

    outboxes: int
    backlog: int
    outage_seconds: float
    seconds: float
    watch: Watch
    back: float

    @property
    def tries(self) -> int:
        """How many connections were tried, after the broker was there again."""
        return sum(each >= self.back for each in self.watch.opened)

    def show(self) -> None:
        """Print it, with the columns of connections."""
        print(
            f"fleet of {self.outboxes:,} with {self.backlog} rows each, outage of {self.outage_seconds:.0f} s: all "
            f"{self.outboxes * self.backlog:,} are in the ledger once, {self.seconds:.1f} s after the broker came "
            f"back, after {self.tries:,} connections"
        )
        print(f"a live event, put when its outbox has found the broker: {_percentiles(self.watch.latencies)}")
        self.watch.draw(self.back)


def _edge(directory: Path, address: str, number: int, watch: Watch) -> Edge:
    edge = Edge(f"ws://{address}", path=directory / f"{number}.db", device_id=f"bench-{number}")
    plain = edge.target.line

    def counted() -> Any:
        watch.opened.append(time.perf_counter())
        if number in watch.back:
            watch.back[number].set()
        return plain()

    edge.sender.line = counted
    return edge


async def _live(edge: Edge, number: int, watch: Watch) -> None:
    """Put one event behind the backlog, when the way is open again."""
    await watch.back[number].wait()
    name = f"live_{number}_0"
    watch.put[name] = time.perf_counter()
    await edge.put({**event(0), "event_id": name})


def _check(directory: Path, events: int) -> None:
    """A benchmark that loses events, or doubles them, fails."""
    ledger = apsw.Connection(str(directory / "broker" / "courier.db"), flags=apsw.SQLITE_OPEN_READONLY)
    found = ledger.execute("SELECT count(*) FROM ledger").get
    ledger.close()
    if found != events:
        raise SystemExit(f"{events} events were put, and {found} are in the ledger")


def _percentiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    shown = [f"p{percent} {percentile(ordered, percent) * 1000:,.0f} ms" for percent in (50, 95, 99)]
    return ", ".join([*shown, f"max {ordered[-1] * 1000:,.0f} ms"])


def main() -> None:
    """Run what is asked for, in a directory that goes afterwards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("puts", "drain", "fleet"))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--outboxes", type=int, default=1_000)
    parser.add_argument("--backlog", type=int, default=50)
    parser.add_argument("--outage", type=float, default=15.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="courier-bench-") as name:
        directory = Path(name)
        match given.what:
            case "puts":
                for callers, rate in asyncio.run(puts(directory, given.seconds)).items():
                    print(f"puts, {callers} callers: {rate:,.0f} a second")
            case "drain":
                rate = asyncio.run(drain(directory, given.rows))
                print(f"drain of {given.rows:,} rows: {rate:,.0f} events a second")
            case _:
                asyncio.run(fleet(directory, given.outboxes, given.backlog, given.outage)).show()


if __name__ == "__main__":
    main()

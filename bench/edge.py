"""How fast the edge is: puts a second, the drain of a backlog, and a fleet that comes back after an outage.

    python -m bench.edge puts                  one caller and fifty, on this disk
    python -m bench.edge drain --rows 100000   a backlog against a broker of its own
    python -m bench.edge fleet --outboxes 1000 all come back to one broker at once; live events go on meanwhile

Each prints one line a figure. `fleet` also draws how many connections came in each tenth of a second: with jitter the
columns are low and many, without it there is one high one.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from edge import Edge, Outbox, Pace, limits

PAYLOAD = {"reading": 21.5, "filling": "x" * 150}
COLUMN_SECONDS = 0.1


def event(number: int, prefix: str = "evt") -> dict[str, Any]:
    """An event of some 300 bytes."""
    return {"event_id": f"{prefix}_{number}", "type": "reading", "payload": PAYLOAD}


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    """A broker of its own; its address without the scheme."""
    command = [sys.executable, "-m", "broker", "serve", "--port", "0", "--data", str(directory / "broker")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        found = re.search(rb"http://([^,\s]+)", process.stdout.readline())
        assert found is not None
        yield found[1].decode()
    finally:
        process.terminate()
        process.wait()


async def puts(directory: Path, seconds: float) -> None:
    """Puts a second, with one caller and with fifty."""
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
        print(f"puts, {callers} callers: {done / seconds:,.0f} a second")


async def fill(outbox: Outbox, count: int, prefix: str = "evt") -> None:
    """Put so many, by thousands."""
    for start in range(0, count, 1000):
        await asyncio.gather(*(outbox.put(event(n, prefix)) for n in range(start, min(count, start + 1000))))


async def drain(directory: Path, rows: int) -> None:
    """How fast a backlog reaches the broker."""
    path = directory / "drain.db"
    async with Outbox(path, device_id="bench") as outbox:
        await fill(outbox, rows)
    with broker(directory) as address:
        async with Edge(f"ws://{address}", path=path, device_id="bench", pace=Pace(window=2000)) as edge:
            started = time.perf_counter()
            await edge.drained()
            took = time.perf_counter() - started
    print(f"drain of {rows:,} rows: {rows / took:,.0f} events a second")


class Watch:
    """When lines were opened, and how long live events took."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.opened: Counter[int] = Counter()
        self.latencies: list[float] = []

    def count(self) -> None:
        """A line is being opened."""
        self.opened[int((time.perf_counter() - self.started) / COLUMN_SECONDS)] += 1

    def draw(self) -> None:
        """The connections by time."""
        for column in range(max(self.opened, default=0) + 1):
            print(f"{column * COLUMN_SECONDS:6.1f} s {self.opened[column]:5d} {'#' * (self.opened[column] // 5)}")


async def fleet(directory: Path, outboxes: int, backlog: int) -> None:
    """Many outboxes with a backlog find their broker again; each then puts a live event and waits for it."""
    limits.RESERVE_BYTES = limits.KIB  # a thousand reserves are no part of this
    edges = []
    for number in range(outboxes):
        path = directory / f"{number}.db"
        async with Outbox(path, device_id=f"bench-{number}") as outbox:
            await fill(outbox, backlog, f"old_{number}")
        edges.append((number, path))
    with broker(directory) as address:
        watch = Watch()
        async with AsyncExitStack() as running:
            live = [asyncio.create_task(_one(running, address, number, path, watch)) for number, path in edges]
            await asyncio.gather(*live)
        took = time.perf_counter() - watch.started
    watch.latencies.sort()
    at = watch.latencies[int(len(watch.latencies) * 0.99)]
    print(f"fleet of {outboxes}: drained after {took:.1f} s, a live event took {at * 1000:,.0f} ms (p99)")
    watch.draw()


async def _one(running: AsyncExitStack, address: str, number: int, path: Path, watch: Watch) -> None:
    edge = Edge(f"ws://{address}", path=path, device_id=f"bench-{number}")
    plain = edge.target.line

    def counted() -> Any:
        watch.count()
        return plain()

    edge.sender.line = counted
    await running.enter_async_context(edge)
    began = time.perf_counter()
    await edge.put(event(0, f"live_{number}"))
    await edge.drained()
    watch.latencies.append(time.perf_counter() - began)


def main() -> None:
    """Run what is asked for, in a directory that goes afterwards."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("puts", "drain", "fleet"))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--outboxes", type=int, default=1_000)
    parser.add_argument("--backlog", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="courier-bench-") as name:
        directory = Path(name)
        match given.what:
            case "puts":
                asyncio.run(puts(directory, given.seconds))
            case "drain":
                asyncio.run(drain(directory, given.rows))
            case _:
                asyncio.run(fleet(directory, given.outboxes, given.backlog))


if __name__ == "__main__":
    main()

"""What a small board asks about: memory, start-up, and what `journal.lingerMs` gives where a sync is dear.

    python -m bench.board                       all of it, as the tables of docs/how-to/run-on-a-raspberry-pi.md
    python -m bench.board --sync-ms 50          a slower disk
    python -m bench.board --waiting 1000 --rate 50 --seconds 1

The slow disk is this one, with a wait before each sync (a preloaded `fdatasync`): SD cards take 5 to 50 ms. The load is
open: each event is due at a time that was fixed before, as those of sensors are, and its latency counts from then.
"""

import argparse
import asyncio
import re
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from bench.load.paced import percentile
from tests.support.disk import preload
from tests.support.process import BrokerProcess

STREAM = "bench/board"
LINGER_MS = (0, 20, 100, 500)
LINES_A_REQUEST = 1000
_COMMITS = re.compile(r"^courier_journal_commit_seconds_count (\d+)", re.MULTILINE)


def envelope(name: str) -> str:
    """The body of one event, about 300 bytes."""
    inner = f'{{"id":"{name}","ts":"2026-02-19T18:14:02Z","to":"{STREAM}","type":"t","payload":"{"x" * 200}"}}'
    return f'{{"to":"{STREAM}","envelope":{inner}}}'


def resident_mib(broker: BrokerProcess) -> float:
    """The memory of the broker that is resident."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{broker.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def seconds_to_ready(data: Path) -> tuple[float, float]:
    """From the start of a broker to its first `/readyz` that says yes; and its memory then."""
    started = time.perf_counter()
    with BrokerProcess(data) as broker:
        with urllib.request.urlopen(f"{broker.url}/readyz") as answer:
            assert answer.status == 200
        return time.perf_counter() - started, resident_mib(broker)


async def fill(url: str, count: int) -> None:
    """Publish events that nobody consumes."""
    async with aiohttp.ClientSession(base_url=f"{url}/") as session:
        for first in range(0, count, LINES_A_REQUEST):
            names = (f"w-{number}" for number in range(first, min(count, first + LINES_A_REQUEST)))
            body = "\n".join(map(envelope, names))
            async with session.post(
                "v1/enqueue", data=body, headers={"Content-Type": "application/x-ndjson"}
            ) as answer:
                assert answer.status == 200, await answer.text()


def memory_and_start(directory: Path, waiting: int) -> None:
    """Resident memory and start-up, with nothing and with a backlog."""
    data = directory / "data"
    start_empty, idle = seconds_to_ready(data)
    with BrokerProcess(data) as broker:
        asyncio.run(fill(broker.url, waiting))
        full = resident_mib(broker)
    start_full, after = seconds_to_ready(data)
    print("| | idle | with a backlog | after a restart with it |\n|---|---|---|---|")
    print(f"| events that wait | 0 | {waiting:,} | {waiting:,} |")
    print(f"| resident memory, MiB | {idle:.0f} | {full:.0f} | {after:.0f} |")
    print(f"| from start to `/readyz`, s | {start_empty:.2f} | | {start_full:.2f} |")


async def steady(url: str, rate: float, seconds: float) -> tuple[list[float], int]:
    """Publish at a steady rate; the sorted latencies in milliseconds, and how many commits it took."""
    latencies: list[float] = []
    async with aiohttp.ClientSession(base_url=f"{url}/", connector=aiohttp.TCPConnector(limit=0)) as session:

        async def commits() -> int:
            async with session.get("metrics") as answer:
                found = _COMMITS.search(await answer.text())
            return int(found[1]) if found is not None else 0

        async def publish(number: int, due: float) -> None:
            await asyncio.sleep(due - time.perf_counter())
            body, kind = envelope(f"e-{number}"), {"Content-Type": "application/json"}
            async with session.post("v1/enqueue", data=body, headers=kind) as answer:
                assert answer.status == 200, await answer.text()
            latencies.append((time.perf_counter() - due) * 1000)

        before, start = await commits(), time.perf_counter() + 0.1
        await asyncio.gather(*(publish(number, start + number / rate) for number in range(int(rate * seconds))))
        return sorted(latencies), await commits() - before


def linger(directory: Path, environment: Mapping[str, str], rate: float, seconds: float) -> None:
    """The same load with one setting after the other, on the slow disk."""
    print("| `journal.lingerMs` | commits a second | events a commit | p50, ms | p99, ms |\n|---|---|---|---|---|")
    for linger_ms in LINGER_MS:
        config = {"journal": {"lingerMs": linger_ms}}
        with BrokerProcess(directory / f"linger-{linger_ms}", config=config, env=environment) as broker:
            latencies, commits = asyncio.run(steady(broker.url, rate, seconds))
        p50, p99 = (percentile(latencies, percent) for percent in (50, 99))
        print(f"| {linger_ms} | {commits / seconds:.1f} | {len(latencies) / commits:.1f} | {p50:.0f} | {p99:.0f} |")


def main() -> None:
    """Run the benchmark, and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=100_000, help="how many events wait (default: 100000)")
    parser.add_argument("--sync-ms", type=float, default=20.0, help="what a sync takes longer (default: 20)")
    parser.add_argument("--rate", type=float, default=100.0, help="events a second (default: 100)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long for each setting (default: 20)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        memory_and_start(directory, given.waiting)
        print(f"\n{given.rate:g} events a second, a sync takes {given.sync_ms:g} ms longer:\n")
        environment = preload(directory, sync_us=int(given.sync_ms * 1000))
        linger(directory, environment, given.rate, given.seconds)


if __name__ == "__main__":
    main()

"""How long an event takes from its producer to its consumer, at a steady rate: `python -m bench.latency`.

A real broker in a process of its own, durable streams, one event a frame. The load is open: an event is due at a time
that was fixed before, and its latency counts from then, whether or not the producer could keep to it, so a
stall of the broker is charged to every event that waited for it. Each delivery is matched with its event; one
that is lost, doubled or altered ends the benchmark with an error.
"""

import argparse
import asyncio
import json
import re
import tempfile
import time
from pathlib import Path

import aiohttp
import uvloop

from tests.support.process import BrokerProcess

STREAM = "bench/latency"
PAYLOAD = "x" * 160
SETTLE_SECONDS = 1.0
TICK_SECONDS = 0.001
CREDIT = 50_000
_NUMBER = re.compile(r'"id":"e-(\d+)"')


def frame(number: int) -> str:
    """The frame of one event, about 300 bytes."""
    envelope = f'{{"id":"e-{number}","ts":"2026-02-19T18:14:02Z","to":"{STREAM}","type":"t","payload":"{PAYLOAD}"}}'
    return f'{{"to":"{STREAM}","envelope":{envelope}}}'


async def produce(session: aiohttp.ClientSession, frames: list[str], start: float, rate: float) -> None:
    """Send each frame when it is due, and wait for every acknowledgement."""
    async with session.ws_connect("v1/publish") as socket:
        await socket.receive()

        async def read_acknowledgements() -> None:
            for _ in frames:
                assert '"ack"' in await socket.receive_str(), "an event was refused"

        reading = asyncio.create_task(read_acknowledgements())
        sent = 0
        while sent < len(frames):
            due = min(len(frames), int((time.perf_counter() - start) * rate) + 1)
            for number in range(sent, due):
                await socket.send_str(frames[number])
            sent = max(sent, due)
            await asyncio.sleep(TICK_SECONDS)
        await reading


async def consume(session: aiohttp.ClientSession, frames: list[str], start: float, rate: float) -> list[float]:
    """Take every event and acknowledge it; the milliseconds from when each was due."""
    latencies: list[float] = [-1.0] * len(frames)
    async with session.ws_connect("v1/subscribe", params={"stream": STREAM}) as socket:
        await socket.send_json({"credit": CREDIT})
        unacknowledged: list[int] = []
        for taken in range(1, len(frames) + 1):
            text = await socket.receive_str()
            now = time.perf_counter()
            found = _NUMBER.search(text)
            assert found is not None, text
            number = int(found[1])
            assert latencies[number] < 0, f"event {number} came twice"
            assert frames[number][len(f'{{"to":"{STREAM}","envelope":') : -1] in text, f"event {number} was altered"
            latencies[number] = (now - start - number / rate) * 1000
            unacknowledged.append(number)
            if len(unacknowledged) == 100 or taken == len(frames):
                await socket.send_json({"ack": [f"e-{each}" for each in unacknowledged]})
                await socket.send_json({"credit": len(unacknowledged)})
                unacknowledged.clear()
    return latencies


async def measure(url: str, rate: float, seconds: float) -> list[float]:
    """The latencies of a run, in milliseconds, sorted."""
    frames = [frame(number) for number in range(int(rate * seconds))]
    async with aiohttp.ClientSession(base_url=f"{url}/") as session:
        start = time.perf_counter() + SETTLE_SECONDS
        taking = asyncio.create_task(consume(session, frames, start, rate))
        await asyncio.sleep(SETTLE_SECONDS)
        await produce(session, frames, start, rate)
        return sorted(await taking)


def percentile(ordered: list[float], percent: float) -> float:
    """The value that so many percent of the values do not pass."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def main() -> None:
    """Run the benchmark, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=10_000.0, help="events a second (default: 10000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long (default: 10)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory) / "data") as broker:
        ordered = uvloop.run(measure(broker.url, given.rate, given.seconds))
    figures = {f"p{percent:g}_ms": round(percentile(ordered, percent), 3) for percent in (50, 95, 99)}
    print(json.dumps({"events": len(ordered), "rate": given.rate, **figures, "max_ms": round(ordered[-1], 3)}))


if __name__ == "__main__":
    main()

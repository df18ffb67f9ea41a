"""Load at a fixed rate, whatever the server does: the time at which each event is due was fixed before.

An event's latency counts from when it was due, not from when it could be sent. So a server that stalls is charged for
every event that would have come in the meantime; a load that waits for answers would send fewer, and hide it.
"""

import select
import time
from collections.abc import Sequence

from bench.failure import BenchmarkFailed
from bench.load.consumer import Consumer
from bench.load.drive import STALL_SECONDS, no_collections
from bench.load.lines import Line, Producer

LEAD_SECONDS = 0.2


class PacedProducer(Producer):
    """A producer that may send so many units as are due, and no more."""

    due_units = 0

    @property
    def _allowed_bytes(self) -> int:
        return min(len(self._view), self.due_units * self.cargo.unit_bytes, super()._allowed_bytes)


def run_paced(producers: Sequence[PacedProducer], consumers: Sequence[Consumer], rate: float) -> float:
    """Send at this rate, the producers in turns, until all is answered and delivered; when the first event was due."""
    total = sum(producer.cargo.events for producer in producers)
    lines: list[Line] = [*producers, *consumers]
    by_file = {line.connection.fileno(): line for line in lines}
    with no_collections():
        start = time.perf_counter() + LEAD_SECONDS
        heard = start
        for line in consumers:
            line.writable()
        while True:
            now = time.perf_counter()
            due = max(0, min(total, int((now - start) * rate) + 1)) if now >= start else 0
            for place, producer in enumerate(producers):
                producer.due_units = (due + len(producers) - 1 - place) // len(producers)
                if producer.stuck:
                    producer.writable()
            if due == total and all(line.done for line in lines) and sum(each.taken for each in consumers) >= total:
                return start
            wait = start + due / rate - time.perf_counter() if due < total else STALL_SECONDS
            ready, _, _ = select.select(
                by_file, [file for file, line in by_file.items() if line.stuck], [], max(0.0, wait)
            )
            for file in ready:
                by_file[file].readable()
                heard = time.perf_counter()
            if time.perf_counter() - heard > STALL_SECONDS:
                raise BenchmarkFailed(f"nothing came for {STALL_SECONDS:.0f} s; last: {lines[-1].last_words()}")


def latencies(consumers: Sequence[Consumer], start: float, rate: float, first: int, size: int) -> list[float]:
    """Seconds from when each event was due to when a consumer had it, in order of size."""
    found = []
    for consumer in consumers:
        numbers = iter(consumer.numbers(size))
        taken = 0
        for until, when in consumer.times:
            found += [when - start - (next(numbers) - first) / rate for _ in range(until - taken)]
            taken = until
    return sorted(found)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent of the values do not pass."""
    if not ordered:
        raise ValueError("there is no percentile of nothing")
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]

"""How a stream is doing: how fast events come and go, and how long they wait for their first delivery."""

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from _fast import Histogram

if TYPE_CHECKING:
    from broker.streams.stream import Stream

RATE_SECONDS: Final = 5.0
"""How far back a rate looks: what is older than this counts for less than 37 percent."""


class Rate:
    """Events a second, of late. Each event counts for less the longer ago it was."""

    __slots__ = ("_at_ms", "_level")

    def __init__(self) -> None:
        self._level = 0.0
        self._at_ms = 0

    def mark(self, count: int, now_ms: int) -> None:
        """So many happened now."""
        self._level = self._decayed(now_ms) + count
        self._at_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """How many a second there were."""
        return self._decayed(now_ms) / RATE_SECONDS

    def _decayed(self, now_ms: int) -> float:
        if now_ms == self._at_ms:  # of many that come in a millisecond, all but the first
            return self._level
        return self._level * math.exp((self._at_ms - now_ms) / (RATE_SECONDS * 1000))


class Meter:
    """The figures of one stream that a counter does not give."""

    __slots__ = ("latency", "rate_in", "rate_out")

    def __init__(self) -> None:
        self.rate_in = Rate()
        self.rate_out = Rate()
        self.latency = Histogram()
        """From the receipt of an event to its first delivery, in microseconds."""

    def latency_ms(self, percentile: int) -> float | None:
        """A percentile of the latency in milliseconds; None before the first delivery."""
        return self.latency.percentile(percentile) / 1000 if self.latency.count else None


def figures(stream: "Stream", now_ms: int) -> dict[str, Any]:
    """How a stream is doing (003 §7.1), with its totals since the start."""
    meter = stream.meter or Meter()
    last = datetime.fromtimestamp(stream.last_received_at / 1e6, UTC) if stream.last_received_at else None
    shown = {
        "depth": stream.pending - stream.in_flight,
        "inflight": stream.in_flight,
        "rateIn": round(meter.rate_in.per_second(now_ms), 3),
        "rateOut": round(meter.rate_out.per_second(now_ms), 3),
        "latP50": meter.latency_ms(50),
        "latP95": meter.latency_ms(95),
        "lastTs": None if last is None else last.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "subscribers": len(stream.credits),
        "durability": "memory" if stream.rules.in_memory else "journal",
        "totals": {
            "in": stream.counters.came,
            "out": stream.counters.delivered,
            "ack": stream.counters.acked,
            "nack": stream.counters.nacked,
            "redelivered": stream.counters.redelivered,
            "dead": stream.counters.dead,
        },
    }
    return shown | {"metrics": _documented(shown)}


def _documented(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures under the names of 003 §10."""
    totals = figures["totals"]
    return {
        "q.in": totals["in"],
        "q.out": totals["out"],
        "q.ack": totals["ack"],
        "q.nack": totals["nack"],
        "q.re": totals["redelivered"],
        "q.depth": figures["depth"],
        "q.if": figures["inflight"],
        "q.lat.p50": figures["latP50"],
        "q.lat.p95": figures["latP95"],
    }

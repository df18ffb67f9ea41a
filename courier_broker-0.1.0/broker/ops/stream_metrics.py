"""The figures of the streams. The first streams have labels of their own; the others are one, `(other)`.

Which ones are first is the order in which they came into being, and a stream is never unmade. So a stream keeps its
label, or stays with the others, until a restart: no counter ever goes back. Rejected: the busiest ones, because one
that joins or leaves the others makes their counters jump. There may be very many streams, so they are added up
in slices, between which the loop goes on.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from broker.ops.metrics import Family, Sample, metric, value, values
from broker.streams.meter import Meter
from broker.streams.stream import Stream

OTHER: Final = "(other)"
"""The label of all streams without one of their own. No stream can be called so."""

SLICE = 1_000
"""How many streams are looked at before the loop goes on."""

COUNT = metric("courier_streams", "gauge", "Streams that there are.")
IN = metric("courier_stream_events_in_total", "counter", "Events enqueued (q.in).", "stream")
OUT = metric("courier_stream_events_out_total", "counter", "Deliveries (q.out), repeated ones included.", "stream")
ACKED = metric("courier_stream_events_acked_total", "counter", "Deliveries that were acknowledged (q.ack).", "stream")
NACKED = metric("courier_stream_events_nacked_total", "counter", "Deliveries that were refused (q.nack).", "stream")
AGAIN = metric("courier_stream_redeliveries_total", "counter", "Deliveries that were not the first (q.re).", "stream")
DEAD = metric("courier_stream_dead_letters_total", "counter", "Events that became dead letters.", "stream")
DEPTH = metric("courier_stream_depth", "gauge", "Events that wait (q.depth).", "stream")
IN_FLIGHT = metric("courier_stream_in_flight", "gauge", "Events that a consumer holds (q.if).", "stream")
SUBSCRIBERS = metric("courier_stream_subscribers", "gauge", "Subscribers, those of patterns included.", "stream")
LATENCY = metric(
    "courier_stream_delivery_latency_seconds",
    "summary",
    "From the receipt of an event to its first delivery (q.lat.p50, q.lat.p95), since the start. "
    f"{OTHER} has no quantiles.",
    "stream",
)
QUANTILES: Final = ((50, "0.5"), (95, "0.95"))

_COUNTED = (IN, OUT, ACKED, NACKED, AGAIN, DEAD, DEPTH, IN_FLIGHT, SUBSCRIBERS)


class Figures(NamedTuple):
    """The figures of one stream, or of several, in the order of the metrics above."""

    events_in: int = 0
    out: int = 0
    acked: int = 0
    nacked: int = 0
    again: int = 0
    dead: int = 0
    depth: int = 0
    in_flight: int = 0
    subscribers: int = 0
    first_deliveries: int = 0
    latency_us: int = 0

    @classmethod
    def of(cls, stream: Stream) -> "Figures":
        """Those of one stream."""
        latency = None if stream.meter is None else stream.meter.latency
        return cls(
            stream.counters.came,
            stream.counters.delivered,
            stream.counters.acked,
            stream.counters.nacked,
            stream.counters.redelivered,
            stream.counters.dead,
            stream.pending - stream.in_flight,
            stream.in_flight,
            len(stream.credits),
            0 if latency is None else latency.count,
            0 if latency is None else latency.total,
        )

    def plus(self, other: "Figures") -> "Figures":
        """The two together."""
        return Figures(*map(int.__add__, self, other))


class Streams(Protocol):
    """What is needed of the registry."""

    def all(self) -> Iterable[Stream]:
        """Every stream, in the order in which they came into being."""


class StreamMetrics:
    """A collector; `refresh` must have run before."""

    def __init__(self, streams: Streams, labels_max: int) -> None:
        self._streams = streams
        self._labels_max = labels_max
        self._labelled: list[Stream] = []
        self._count = 0
        self._others: Figures | None = None

    async def refresh(self) -> None:
        """Add up the streams without a label of their own."""
        streams = list(self._streams.all())
        others = None
        for start in range(self._labels_max, len(streams), SLICE):
            for stream in streams[start : start + SLICE]:
                figures = Figures.of(stream)
                others = figures if others is None else others.plus(figures)
            await asyncio.sleep(0)
        self._labelled, self._others, self._count = streams[: self._labels_max], others, len(streams)

    def __call__(self) -> Iterator[Family]:
        """The families."""
        shown = [(stream.name, Figures.of(stream), stream.meter) for stream in self._labelled]
        if self._others is not None:
            shown.append((OTHER, self._others, None))
        yield value(COUNT, self._count)
        for place, each in enumerate(_COUNTED):
            yield values(each, [(name, figures[place]) for name, figures, _meter in shown])
        yield Family(LATENCY, [sample for each in shown for sample in _latency(*each)])


def _latency(name: str, figures: Figures, meter: Meter | None) -> Iterator[Sample]:
    label = ("stream", name)
    if meter is not None and meter.latency.count:
        for percentile, quantile in QUANTILES:
            yield Sample("", (label, ("quantile", quantile)), meter.latency.percentile(percentile) / 1e6)
    yield Sample("_sum", (label,), figures.latency_us / 1e6)
    yield Sample("_count", (label,), figures.first_deliveries)

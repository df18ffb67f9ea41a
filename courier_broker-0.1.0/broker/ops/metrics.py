"""Metrics: what each one is called and means, and who knows its value.

A collector is a callable that yields families. It is asked at each scrape, so nothing is counted twice: the
counters are the plain numbers that the rooms keep anyway. Who has metrics of their own defines them with
`metric`, and adds a collector with one line in `app.py`: `self.metrics.add(collector)`.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from _fast import Histogram
from broker.ops import exposition

Kind = Literal["counter", "gauge", "histogram", "summary"]
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Metric(NamedTuple):
    """A metric, by Prometheus' conventions: base units, and counters that end in `_total`."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One value."""

    suffix: str
    """What comes behind the name of the metric: `_bucket`, `_sum`, `_count` or nothing."""
    labels: tuple[tuple[str, str], ...]
    value: float


class Family(NamedTuple):
    """A metric with its values."""

    metric: Metric
    samples: Sequence[Sample]


Collector = Callable[[], Iterable[Family]]
DEFINED: dict[str, Metric] = {}
"""Every metric that there is, for the reference page."""


def metric(name: str, kind: Kind, meaning: str, *labels: str) -> Metric:
    """Define a metric. Raise ValueError for one that is there already, or breaks the conventions."""
    if not _NAME.fullmatch(name) or name in DEFINED or (kind == "counter") != name.endswith("_total"):
        raise ValueError(f"{name} cannot be the name of a new {kind}")
    made = DEFINED[name] = Metric(name, kind, meaning, labels)
    return made


def value(of: Metric, number: float) -> Family:
    """The family of a metric without labels."""
    return Family(of, (Sample("", (), number),))


def values(of: Metric, by_label: Iterable[tuple[str | Sequence[str], float]]) -> Family:
    """The family of a metric with labels: the values of the labels, in their order, and the number."""
    return Family(
        of,
        [
            Sample("", tuple(zip(of.labels, (texts,) if isinstance(texts, str) else texts, strict=True)), number)
            for texts, number in by_label
        ],
    )


def histogram(of: Metric, counted: Histogram, bounds: Sequence[float], unit: float) -> Family:
    """The family of a histogram; a recorded value times `unit` is in the unit of the metric.

    The buckets of the broker's histograms are narrower, so a bound is met to three percent. The counts are taken
    once, and everything but the sum follows from them: another thread may be counting.
    """
    buckets = counted.buckets()
    samples = []
    below, at = 0, 0
    for bound in bounds:
        while at < len(buckets) and buckets[at][0] * unit <= bound:
            below += buckets[at][1]
            at += 1
        samples.append(Sample("_bucket", (("le", exposition.number_text(bound)),), below))
    total = below + sum(count for _highest, count in buckets[at:])
    samples.append(Sample("_bucket", (("le", "+Inf"),), total))
    samples += (Sample("_sum", (), counted.total * unit), Sample("_count", (), total))
    return Family(of, samples)


class Metrics:
    """Everybody who has something to say at a scrape."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self._before: list[Callable[[], Awaitable[None]]] = []
        self.scrapes = 0

    def add(self, collector: Collector, before: Callable[[], Awaitable[None]] | None = None) -> None:
        """Ask this collector too. `before` is awaited first: for what takes long, or another thread."""
        self._collectors.append(collector)
        if before is not None:
            self._before.append(before)

    async def render(self) -> bytes:
        """Everything, as Prometheus reads it."""
        self.scrapes += 1
        for before in self._before:
            await before()
        return exposition.text(
            (family.metric.name, family.metric.kind, family.metric.meaning, family.samples)
            for collector in self._collectors
            for family in collector()
        )

"""The event bus: published to handled, one topic and many; latency; what is scheduled, and how late it fires."""

from collections.abc import Iterator

from bench.load.events import Shape
from bench.load.paced import percentile
from bench.results import RATE, Row, Table, table_of
from bench.scenarios.in_process import library
from bench.scenarios.latency import PERCENTILES
from bench.settings import Settings
from bench.systems.bus import CALLERS, bus_inside, published_to_handled, scheduled_to_fired
from bench.turns import Contender, in_turns

TOPICS = 100
LATENCY_RATE = 1_000
LEAD_SECONDS = 8.0


def bus(settings: Settings) -> Iterator[Table]:
    """How many events a second, and how long one takes."""
    contenders = [
        Contender("Courier, one topic", lambda directory: bus_inside(directory, 1)),
        Contender(f"Courier, {TOPICS} topics", lambda directory: bus_inside(directory, TOPICS)),
        library("litequeue", Shape()),
        library("huey", Shape()),
    ]
    yield table_of(
        "bus",
        "The event bus: published, committed, handled",
        f"{CALLERS} callers publish payloads of 160 letters, each waiting for its receipt; an awaited handler has each "
        "event. The libraries have one caller, who puts all in and then takes all out, without a handler.",
        in_turns(contenders, settings.plan, settings.directory),
    )
    home = settings.directory / "bus-latency"
    home.mkdir()
    found = published_to_handled(home, LATENCY_RATE, max(200, round(settings.plan.seconds * LATENCY_RATE)))
    yield _latencies(
        "bus-latency",
        "The event bus: from publication to handler",
        f"{LATENCY_RATE:,} publications a second are due at fixed times; a latency counts from then to the handler.",
        "published to handled (claim: 5 ms)",
        found,
    )


def deferred(settings: Settings) -> Iterator[Table]:
    """A million events scheduled, and ten thousand of them due within one second."""
    far, due = (1_000_000, 10_000) if settings.full else (max(100, round(50_000 * settings.plan.seconds)), 1_000)
    home = settings.directory / "deferred"
    home.mkdir()
    rate, late = scheduled_to_fired(home, far, due, LEAD_SECONDS)
    yield Table(
        name="deferred",
        title="The event bus: scheduled a second",
        text=f"{far:,} events are scheduled for another day, by 1,000 callers who wait for their receipts.",
        columns={RATE: "events a second"},
        rows=[Row(name="Courier", figures={RATE: rate}, rounds=[rate])],
    )
    yield _latencies(
        "deferred-lateness",
        "The event bus: how late a scheduled event is handled",
        f"While {far:,} others wait, {due:,} events are due within one second, evenly spread.",
        "due to handled (claim: 20 ms)",
        late,
    )


def _latencies(name: str, title: str, text: str, row: str, ordered: list[float]) -> Table:
    figures = {key: 1000 * percentile(ordered, percent) for key, percent in PERCENTILES.items()}
    return Table(
        name=name,
        title=title,
        text=text,
        columns={**{key: f"{key}, ms" for key in PERCENTILES}, "max": "max, ms"},
        rows=[Row(name=row, figures={**figures, "max": 1000 * ordered[-1]}, note=f"{len(ordered):,} events")],
        plot="percentiles",
    )

"""The event bus: published to handled, one topic and many; latency; what is scheduled, how late it is, its cost."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.failure import NotInstalled
from bench.load.events import Shape
from bench.load.paced import percentile
from bench.results import RATE, Ratio, Row, Table, table_of
from bench.scenarios.in_process import library
from bench.scenarios.latency import PERCENTILES
from bench.settings import Settings
from bench.systems.bus import CALLERS, bus_inside, published_to_handled
from bench.systems.deferred import scheduled_by_huey, scheduled_to_fired, start_with
from bench.turns import Contender, in_turns

TOPICS = 100
LATENCY_RATE = 1_000
STARTS = 3
HUEY_PART = 50
"""huey schedules so many times fewer: with a commit for each, a million of them would take half an hour."""
HUEY_NOTE = (
    "its storage alone; its scheduler looks once a second; what is due is deleted before it is in the queue, so that a "
    "crash in between loses it"
)


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
    """A million events scheduled; ten thousand due within a second, and at one moment; a start while others wait."""
    far, due = (1_000_000, 10_000) if settings.full else (max(100, round(50_000 * settings.plan.seconds)), 1_000)
    far_huey = far // HUEY_PART
    home, home_huey = settings.directory / "deferred", settings.directory / "deferred-huey"
    home.mkdir()
    home_huey.mkdir()
    found = {"Courier": scheduled_to_fired(home, far, due)}
    skipped = {"litequeue": "it cannot schedule"}
    try:
        found["huey"] = scheduled_by_huey(home_huey, far_huey, due)
    except NotInstalled as missing:
        skipped["huey"] = str(missing)
    yield _beside(
        "deferred",
        "The event bus: scheduled a second",
        f"{far:,} events are scheduled for another day, by 1,000 callers who wait for their receipts. huey schedules "
        f"{far_huey:,}, by one caller, a commit for each.",
        {name: each.rate for name, each in found.items()},
        skipped,
    )
    yield _beside(
        "deferred-due",
        "The event bus: due at one moment, and done with",
        f"While the others wait, {due:,} events are due at one moment; counted from then until the last is handled. "
        "huey takes them out at once, puts each into its queue and takes it from there, without its wait before.",
        {name: each.rate_due for name, each in found.items()},
        skipped,
    )
    yield _latencies(
        "deferred-lateness",
        "The event bus: how late a scheduled event is handled",
        f"While {far:,} others wait, {due:,} events are due within one second, evenly spread.",
        "due to handled (claim: 20 ms)",
        found["Courier"].late,
    )
    yield _starts(home, settings.directory / "deferred-none", far)


def _beside(name: str, title: str, text: str, rates: Mapping[str, float], skipped: Mapping[str, str]) -> Table:
    """The rate of Courier and of who else can schedule, and why the others cannot be here."""
    notes = {"huey": HUEY_NOTE}
    rows = [Row(name=who, figures={RATE: rate}, rounds=[rate], note=notes.get(who, "")) for who, rate in rates.items()]
    rows += [Row(name=who, skipped=why) for who, why in skipped.items()]
    ratios = [Ratio(of="Courier", to=who, value=rates["Courier"] / rate) for who, rate in rates.items() if who in notes]
    return Table(name=name, title=title, text=text, columns={RATE: "events a second"}, rows=rows, ratios=ratios)


def _starts(home: Path, empty: Path, far: int) -> Table:
    """A start with what waits in this directory, and one with nothing: the fastest of three, and the least memory."""
    rows = []
    for name, directory in ((f"{far:,} scheduled", home), ("none", empty)):
        starts = [start_with(directory) for _ in range(STARTS)]
        figures = {"ready": 1000 * min(seconds for seconds, _ in starts), "memory": min(mib for _, mib in starts)}
        rows.append(Row(name=name, figures=figures))
    return Table(
        name="deferred-start",
        title="The scheduler: what waits and what a start costs",
        text=f"`courier serve` is started {STARTS} times, until its first `/readyz` that says yes; the least is shown.",
        columns={"ready": "start to ready, ms", "memory": "memory then, MiB"},
        rows=rows,
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

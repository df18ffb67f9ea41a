"""The edge: puts into an outbox, the drain of a backlog, and a fleet whose broker comes back."""

import asyncio
from collections.abc import Iterator

from bench.edge import drain, fleet, puts
from bench.load.paced import percentile
from bench.results import RATE, Row, Table
from bench.scenarios.latency import PERCENTILES
from bench.settings import Settings


def edge(settings: Settings) -> Iterator[Table]:
    """What one outbox does, and what a thousand do together."""
    rows = 100_000 if settings.full else max(1_000, round(20_000 * settings.plan.seconds))
    homes = {name: settings.directory / name for name in ("puts", "drain", "fleet")}
    for home in homes.values():
        home.mkdir()
    rates = {f"put, {callers} callers": rate for callers, rate in asyncio.run(puts(homes["puts"], 1.0)).items()}
    rates[f"drain of {rows:,} rows"] = asyncio.run(drain(homes["drain"], rows))
    yield Table(
        name="edge",
        title="The edge: one outbox",
        text="Puts into the outbox of a device, each on disk before it returns; the drain of a backlog to a broker.",
        columns={RATE: "events a second"},
        rows=[Row(name=name, figures={RATE: rate}, rounds=[rate]) for name, rate in rates.items()],
    )
    outboxes, backlog, outage = (1_000, 50, 15.0) if settings.full else (20, 10, 1.0)
    back = asyncio.run(fleet(homes["fleet"], outboxes, backlog, outage))
    ordered = sorted(back.watch.latencies)
    figures = {key: 1000 * percentile(ordered, percent) for key, percent in PERCENTILES.items()}
    yield Table(
        name="edge-fleet",
        title="The edge: a fleet whose broker comes back",
        text=f"{outboxes:,} outboxes lose their broker for {outage:.0f} s and gather {backlog} events each. All were "
        f"in the ledger once {back.seconds:.1f} s after it came back, after {back.tries:,} connections. Each puts one "
        "live event when its way is open again; how long that took to its commit:",
        columns={**{key: f"{key}, ms" for key in PERCENTILES}, "max": "max, ms"},
        rows=[Row(name="live events", figures={**figures, "max": 1000 * ordered[-1]})],
        plot="percentiles",
    )

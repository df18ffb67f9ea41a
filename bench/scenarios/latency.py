"""How long an event takes from its producer to its consumer, at a rate that does not wait for anybody."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.failure import NotInstalled
from bench.load.consumer import check_deliveries
from bench.load.lines import Producer
from bench.load.paced import PacedProducer, latencies, percentile, run_paced
from bench.results import Ratio, Row, Table
from bench.scenarios.end_to_end import Flow, broker_peer, check_all_gone
from bench.scenarios.peers import PEERS
from bench.settings import Settings
from bench.systems.courier import courier
from bench.systems.peers import Peer

RATE = 10_000
PEERS_RATE = 1_000
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
FLOW = Flow(batch=0, window=1_000_000_000)
"""Nobody holds a producer back but the clock."""

Lap = Callable[[int, int], list[float]]
"""Given the number of the first event and how many, send them at the rate; the latencies in order of size."""


def paced_lap(peer: Peer, flow: Flow, rate: float) -> Lap:
    """Rounds at this rate: event by event to the producers in turns."""

    def lap(first: int, count: int) -> list[float]:
        numbers = range(first, first + count)
        consumers = [peer.consumer() for _ in range(flow.consumers)]
        producers = [_paced(peer.producer(numbers[place :: flow.producers])) for place in range(flow.producers)]
        try:
            start = run_paced(producers, consumers, rate)
        finally:
            for line in (*consumers, *producers):
                line.close()
        for producer in producers:
            producer.check()
        check_deliveries(flow.shape.envelopes(numbers), consumers, flow.shape.size)
        return latencies(consumers, start, rate, first, flow.shape.size)

    return lap


def _paced(plain: Producer) -> PacedProducer:
    return PacedProducer(plain.connection, plain.cargo, FLOW.window, plain.inbox.new())


@contextmanager
def _courier(directory: Path, flow: Flow, rate: float) -> Iterator[Lap]:
    with courier(directory) as broker:
        plain = paced_lap(broker_peer(broker, flow), flow, rate)

        def lap(first: int, count: int) -> list[float]:
            found = plain(first, count)
            check_all_gone(broker, flow)
            return found

        yield lap


@contextmanager
def _peer(name: str, directory: Path, flow: Flow, rate: float) -> Iterator[Lap]:
    start, _ = PEERS[name]
    with start(directory, flow.shape, flow.consumers, flow.window, {}) as peer:
        yield paced_lap(peer, flow, rate)


def _row(name: str, running: AbstractContextManager[Lap], seconds: float, rate: float, rounds: int) -> Row:
    """Each contender by itself: at a fixed rate, nobody takes what another leaves."""
    count, found = max(100, round(rate * seconds)), []
    try:
        with running as lap:
            lap(1, max(100, count // 10))
            for number in range(1, rounds + 1):
                found += lap(1 + number * count, count)
    except NotInstalled as missing:
        return Row(name=name, skipped=str(missing))
    found.sort()
    figures = {key: 1000 * percentile(found, percent) for key, percent in PERCENTILES.items()}
    return Row(name=name, figures={**figures, "max": 1000 * found[-1]}, note=f"{len(found):,} events")


def latency(settings: Settings) -> Iterator[Table]:
    """At 10,000 a second Courier and Redis; at 1,000 a second everybody."""
    seconds = max(settings.plan.seconds, 0.01) * 2
    fast, slow = [*_contenders(settings, RATE, ["Redis Streams"])], [*_contenders(settings, PEERS_RATE, list(PEERS))]
    for rate, contenders in ((RATE, fast), (PEERS_RATE, slow if settings.full else [])):
        if contenders:
            rows = [_row(name, running, seconds, rate, settings.plan.rounds) for name, running in contenders]
            yield _table(rate, rows)


def _contenders(
    settings: Settings, rate: float, peers: Sequence[str]
) -> Iterator[tuple[str, AbstractContextManager[Lap]]]:
    for name in ("Courier", *peers):
        home = settings.directory / f"{name} at {rate}".replace(" ", "-")
        home.mkdir()
        yield name, (_courier(home, FLOW, rate) if name == "Courier" else _peer(name, home, FLOW, rate))


def _table(rate: int, rows: list[Row]) -> Table:
    mine = rows[0]
    others = [row for row in rows[1:] if row.figures]
    return Table(
        name=f"latency-{rate}",
        title=f"Latency at {rate:,} events a second, durable, end to end",
        text=f"Events of {FLOW.shape.size} bytes are due at a fixed rate, on {FLOW.producers} sockets in turns, "
        f"whether or not the server keeps up; an event's latency counts from when it was due to when one of "
        f"{FLOW.consumers} consumers had read it. Percentiles are over all rounds.",
        columns={**{key: f"{key}, ms" for key in PERCENTILES}, "max": "max, ms"},
        rows=rows,
        ratios=[
            Ratio(of=row.name, to=mine.name, value=row.figures["p99"] / mine.figures["p99"], goal="") for row in others
        ],
        plot="percentiles",
    )

"""From producer to consumer: sent, committed, delivered, acknowledged; everything checked, nothing left over."""

import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import lcm
from pathlib import Path
from urllib.parse import quote

import msgspec

from bench.failure import BenchmarkFailed
from bench.load.consumer import Consumer, Tally, check_deliveries, shares
from bench.load.drive import Timed, drive
from bench.load.events import Shape
from bench.load.lines import Line, Producer
from bench.results import Ratio, Table, table_of
from bench.scenarios.publish import SOCKETS, WINDOW, share
from bench.settings import Settings
from bench.systems.courier import check_ledger, courier
from bench.systems.peers import Peer
from bench.turns import Contender, Plan, Turn, in_turns
from bench.wire import websocket
from tests.support.process import BrokerProcess, until


@dataclass(frozen=True)
class Flow:
    """How many on each side, and how much at a time."""

    shape: Shape = field(default_factory=Shape)
    consumers: int = 8
    producers: int = SOCKETS
    window: int = WINDOW
    per_frame: int = 1
    """How many events a producer puts into one frame."""
    batch: int = 100
    """How many envelopes one delivery may bring; 0 for a frame each."""
    credit: int = 1_000
    durability: str = "journal"


def flow_through(flow: Flow, peer: Peer, *, watch: Callable[[list[Consumer]], None] = lambda _consumers: None) -> Turn:
    """Rounds of a flow through a broker that runs. `watch` sees the consumers of each round."""

    def turn(first: int, count: int) -> Timed:
        numbers = share(first, count, flow.producers, flow.per_frame)
        lines: list[Line] = []
        try:
            consumers = [peer.consumer() for _ in range(flow.consumers)]
            lines += consumers
            tally = Tally()
            for taker in consumers:
                taker.tally = tally
            producers = [peer.producer(each) for each in numbers]
            lines += producers
            timed = drive(lines, lambda: tally.taken >= count)
        finally:
            for line in lines:
                line.close()
        for each in producers:
            each.check()
        check_deliveries(flow.shape.envelopes(range(first, first + count)), consumers, flow.shape.size)
        watch(consumers)
        return timed

    return turn


def broker_peer(broker: BrokerProcess, flow: Flow) -> Peer:
    """How to connect to this broker."""
    path = f"/v1/subscribe?stream={flow.shape.stream}" + (f"&batch={flow.batch}" if flow.batch else "")

    def producer(numbers: Sequence[int]) -> Producer:
        connection, received = websocket.open_socket(broker.port, "/v1/publish")
        cargo = websocket.publishing(flow.shape, numbers, flow.per_frame)
        return Producer(connection, cargo, flow.window, received)

    def consumer() -> Consumer:
        connection, received = websocket.open_socket(broker.port, path)
        return Consumer(connection, websocket.Subscription(flow.credit), flow.consumers, received)

    return Peer(producer, consumer)


def check_all_gone(broker: BrokerProcess, flow: Flow) -> None:
    """Raise BenchmarkFailed if something still waits, or is held; then wait until its subscribers are gone."""
    address = f"{broker.url}/v1/streams/{quote(flow.shape.stream, safe='')}/stats"

    def stats() -> dict[str, int]:
        with urllib.request.urlopen(address) as answer:
            return msgspec.json.decode(answer.read(), type=dict)

    found = stats()
    if found["depth"] or found["inflight"]:
        raise BenchmarkFailed(f"all was acknowledged, but {found['depth']} wait and {found['inflight']} are held")
    until(lambda: stats()["subscribers"] == 0)


def broker_contender(
    name: str,
    flow: Flow,
    note: str = "",
    watch: Callable[[list[Consumer]], None] = lambda _: None,
    environment: Callable[[Path], dict[str, str]] = lambda _: {},
) -> Contender:
    """A broker of its own for a flow; at the end its ledger has everything, processed."""

    @contextmanager
    def start(directory: Path) -> Iterator[Turn]:
        done = 0
        config = {"streams": {"durability": flow.durability, "maxDepth": 10_000_000}}
        with courier(directory, config, environment(directory)) as broker:
            plain = flow_through(flow, broker_peer(broker, flow), watch=watch)

            def turn(first: int, count: int) -> Timed:
                nonlocal done
                timed = plain(first, count)
                check_all_gone(broker, flow)
                done += count
                return timed

            yield turn
        check_ledger(directory, done if flow.durability == "journal" else 0, unfinished=0)

    return Contender(name, start, lcm(flow.per_frame, flow.consumers), note)


SHARED_EVENTS = 20
SHARED_EVENTS_FULL = 300
"""How many events a consumer gets where shares are compared: with 300, one event is a third of a percent."""

TEXT = (
    "{events}, sent on {producers} sockets with up to {window:,} unanswered each, are committed, delivered to "
    "{consumers} and acknowledged by them. The clock stops when the server has confirmed the last acknowledgement."
)
AT_LENGTH = "8 consumers, each with a credit of 1,000"
ACKS_NOTE = "an acknowledgement of a consumer is on disk within 50 ms; after a crash in between, the event comes again"


def text_of(flow: Flow) -> str:
    """What is done, in words."""
    return TEXT.format(
        events=f"Events of {flow.shape.size} bytes",
        producers=flow.producers,
        window=flow.window,
        consumers="one consumer" if flow.consumers == 1 else f"{flow.consumers:,} consumers",
    )


def end_to_end(settings: Settings) -> Iterator[Table]:
    """Eight consumers."""
    flow = Flow()
    contenders = [
        broker_contender("Courier", flow, ACKS_NOTE),
        broker_contender("Courier, a frame each", replace(flow, batch=0), "deliveries without ?batch="),
        broker_contender(
            "Courier, arrays of 100", replace(flow, per_frame=100), "100 events in each frame of a producer"
        ),
    ]
    yield table_of(
        "end-to-end",
        "From producer to consumer, durable",
        text_of(flow),
        in_turns(contenders, settings.plan, settings.directory),
    )


def memory(settings: Settings) -> Iterator[Table]:
    """The same through streams in memory."""
    flow = Flow(durability="memory")
    contenders = [
        broker_contender("Courier, in memory", flow, "lost when the process ends"),
        broker_contender("Courier, durable", Flow()),
    ]
    yield table_of(
        "memory",
        "Streams in memory, over sockets",
        text_of(flow),
        in_turns(contenders, settings.plan, settings.directory),
    )


def _one_at_a_time(consumers: int) -> Flow:
    return Flow(consumers=consumers, batch=0, credit=1)


def fairness(directory: Path, consumers: int, events_each: int) -> tuple[float, float]:
    """The smallest and the largest share of consumers that hold one event at a time.

    By itself and not timed: a share is a number of whole events, so that only many of them can show a small difference.
    """
    seen: list[tuple[float, float]] = []
    flow = _one_at_a_time(consumers)
    contender = broker_contender("shares", flow, watch=lambda all_of_them: seen.append(shares(all_of_them)))
    directory.mkdir()
    with contender.start(directory) as turn:
        turn(1, consumers * events_each)
    return seen[0]


def subscribers(settings: Settings) -> Iterator[Table]:
    """How throughput and fairness hold with the number of consumers."""
    counts = (1, 8, 64, 1_000)
    plan = Plan(settings.plan.seconds, settings.plan.rounds, first_events=20_000)
    one_at_a_time = [broker_contender(f"{count:,} consumers", _one_at_a_time(count)) for count in counts]
    standings = in_turns([*one_at_a_time, broker_contender(AT_LENGTH, Flow(batch=0))], plan, settings.directory)
    each = SHARED_EVENTS_FULL if settings.full else SHARED_EVENTS
    seen = {count: fairness(settings.directory / f"shares-{count}", count, each) for count in counts}
    plain = table_of("subscribers", "", "", standings)
    rows = [
        msgspec.structs.replace(
            row,
            figures={**row.figures, "consumers": count, "least": seen[count][0], "most": seen[count][1]},
        )
        for count, row in zip(counts, plain.rows, strict=False)
    ]
    eight, thousand, at_length = standings[1], standings[-2], standings[-1]
    yield Table(
        name="subscribers",
        title="By the number of consumers, each with a credit of 1",
        text=f"{text_of(Flow())} Here their number differs, and each holds one event at a time; "
        f"the last line is for comparison. Shares are of a flow of its own, with {each} events for each consumer: "
        f"one event is {1 / each:.2%}.",
        columns={**plain.columns, "consumers": "consumers", "least": "smallest share", "most": "largest share"},
        rows=[*rows, plain.rows[-1]],
        ratios=[
            Ratio(of=thousand.name, to=eight.name, value=thousand.ratio(eight), goal="≥ 0.7"),
            Ratio(of=thousand.name, to=at_length.name, value=thousand.ratio(at_length), goal="≥ 0.7"),
        ],
        plot="curve",
        x="consumers",
    )

"""Events in: sent, committed, acknowledged; the broker beside bare handlers that only parse and answer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec

from bench.journal_load import bare_loop, in_batches, make_events
from bench.load.drive import Timed, drive
from bench.load.events import Shape, with_duplicates
from bench.load.lines import Cargo, Producer
from bench.results import RATE, Table, table_of
from bench.settings import Settings
from bench.systems.bare import bare
from bench.systems.courier import check_ledger, courier
from bench.turns import Contender, Turn, in_turns
from bench.wire import http, websocket

HTTP_CONNECTIONS = 32
SOCKETS = 4
WINDOW = 1_000
"""How many events each socket has unanswered: together, what the ingest queue of a broker holds."""
WINDOW_BYTES = 1 << 22
LINES = 100

Pack = Callable[[Sequence[int]], Cargo]


def share(first: int, count: int, connections: int, step: int) -> list[range]:
    """The numbers of each connection: runs of about the same length, each a multiple of `step`."""
    units = count // step
    cuts = [first + units * place // connections * step for place in range(connections + 1)]
    return [range(start, end) for start, end in pairwise(cuts) if end > start]


def over_http(port: int, pack: Pack, connections: int = HTTP_CONNECTIONS, step: int = 1) -> Turn:
    """Requests on so many connections, one under way on each."""

    def turn(first: int, count: int) -> Timed:
        cargoes = [pack(numbers) for numbers in share(first, count, connections, step)]
        return _run([Producer(http.connect(port), cargo, step) for cargo in cargoes])

    return turn


def over_sockets(port: int, pack: Pack, step: int, sockets: int = SOCKETS, window: int = WINDOW) -> Turn:
    """Frames on so many WebSockets, each with a window of unanswered events."""

    def turn(first: int, count: int) -> Timed:
        cargoes = [pack(numbers) for numbers in share(first, count, sockets, step)]
        return _run([_dial(port, cargo, window) for cargo in cargoes])

    return turn


def _dial(port: int, cargo: Cargo, window: int) -> Producer:
    connection, received = websocket.open_socket(port, "/v1/publish")
    return Producer(connection, cargo, window, received)


def _run(producers: Sequence[Producer]) -> Timed:
    try:
        timed = drive(producers)
        for producer in producers:
            producer.check()
        return timed
    finally:
        for producer in producers:
            producer.close()


@contextmanager
def _courier(
    directory: Path,
    make: Callable[[int], Turn],
    *,
    unique: bool = True,
    config: Mapping[str, object] | None = None,
) -> Iterator[Turn]:
    """A broker whose ledger must have what was acknowledged, at the end; fewer rows, if not all of it is `unique`."""
    acknowledged = 0
    with courier(directory, config) as broker:
        plain = make(broker.port)

        def turn(first: int, count: int) -> Timed:
            nonlocal acknowledged
            timed = plain(first, count)
            acknowledged += count
            return timed

        yield turn
    if unique:
        check_ledger(directory, acknowledged, unfinished=acknowledged)


@contextmanager
def _bare(_directory: Path, make: Callable[[int], Turn]) -> Iterator[Turn]:
    with bare() as port:
        yield make(port)


LOOP = "bare SQLite loop"
LOOP_BATCH = 500
BARE = "bare aiohttp handler"
BARE_NOTE = "only parses and answers: keeps nothing"


def courier_over_sockets(name: str, shape: Shape, per_frame: int, duplicates: float = 0.0) -> Contender:
    """A broker of its own, this share of whose events were sent before on the same socket."""

    def pack(numbers: Sequence[int]) -> Cargo:
        sent = with_duplicates(numbers[0], len(numbers), duplicates) if duplicates else numbers
        return websocket.publishing(shape, sent, per_frame)

    def make(port: int) -> Turn:
        return over_sockets(port, pack, per_frame, window=max(per_frame, min(WINDOW, WINDOW_BYTES // shape.size)))

    return Contender(name, lambda directory: _courier(directory, make, unique=not duplicates), per_frame)


@contextmanager
def _loop(directory: Path) -> Iterator[Turn]:
    """The C loop of the journal alone, into a new ledger each round."""

    def turn(first: int, count: int) -> Timed:
        home = directory / str(first)
        home.mkdir()
        return Timed(bare_loop(home, in_batches(make_events(first, count), LOOP_BATCH)), 0.0)

    yield turn


def http_contenders(shape: Shape, config: Mapping[str, object] | None = None) -> list[Contender]:
    """`POST /v1/enqueue`, one event a request; the broker with settings of its own, if there are any."""

    def make(port: int) -> Turn:
        return over_http(port, lambda numbers: http.one_each(shape, numbers))

    return [
        Contender("Courier", lambda directory: _courier(directory, make, config=config)),
        Contender(BARE, lambda directory: _bare(directory, make), note=BARE_NOTE),
    ]


def socket_contenders(shape: Shape, per_frame: int) -> list[Contender]:
    """`WS /v1/publish`, so many events a frame."""

    def maker(acked_each: bool) -> Callable[[int], Turn]:
        def pack(numbers: Sequence[int]) -> Cargo:
            return websocket.publishing(shape, numbers, per_frame, acked_each=acked_each)

        return lambda port: over_sockets(port, pack, per_frame)

    return [
        Contender("Courier", lambda directory: _courier(directory, maker(True)), per_frame),
        Contender(
            BARE,
            lambda directory: _bare(directory, maker(per_frame == 1)),
            per_frame,
            BARE_NOTE if per_frame == 1 else f"{BARE_NOTE}; one answer for a whole frame",
        ),
        Contender(LOOP, _loop, note=f"no sockets, no parsing, no answers: {LOOP_BATCH} rows a commit, in a row"),
    ]


TEXT = "Each event has {size} bytes, is new, and is acknowledged after its commit. {how}"


def http_one(settings: Settings) -> Iterator[Table]:
    """`POST /v1/enqueue`, one event a request, beside a bare handler."""
    standings = in_turns(http_contenders(Shape()), settings.plan, settings.directory)
    how = f"{HTTP_CONNECTIONS} connections that stay open, one request under way on each."
    yield table_of(
        "http",
        "POST /v1/enqueue, one event a request",
        TEXT.format(size=Shape().size, how=how),
        standings,
        goals={("Courier", BARE): "≥ 0.8"},
    )


def sockets(settings: Settings, per_frame: int, goal: str = "") -> Iterator[Table]:
    """`WS /v1/publish`, so many events a frame, beside a bare handler."""
    standings = in_turns(socket_contenders(Shape(), per_frame), settings.plan, settings.directory)
    how = f"{SOCKETS} sockets, each with up to {WINDOW:,} events unanswered."
    count = "one event" if per_frame == 1 else f"{per_frame} events"
    yield table_of(
        f"ws-{per_frame}",
        f"WS /v1/publish, {count} a frame",
        TEXT.format(size=Shape().size, how=how),
        standings,
        goals={("Courier", BARE): goal, ("Courier", LOOP): "≥ 0.5" if per_frame == 100 else ""},
    )


def ndjson(settings: Settings) -> Iterator[Table]:
    """`POST /v1/enqueue` with many lines."""
    shape = Shape()

    def make(port: int) -> Turn:
        return over_http(port, lambda numbers: http.many_each(shape, numbers, LINES), SOCKETS, LINES)

    standings = in_turns(
        [
            Contender("Courier", lambda directory: _courier(directory, make), LINES),
            courier_over_sockets("Courier, WebSocket", shape, LINES),
        ],
        settings.plan,
        settings.directory,
    )
    how = f"{SOCKETS} connections, one request with {LINES} lines under way on each; beside it, frames of as many."
    yield table_of(
        "ndjson", f"POST /v1/enqueue, {LINES} events as NDJSON", TEXT.format(size=shape.size, how=how), standings
    )


SIZES = {"300 bytes": 300, "2 KB": 2_048, "64 KB": 65_536}


def sizes(settings: Settings) -> Iterator[Table]:
    """By the size of the envelope."""
    contenders = [courier_over_sockets(name, Shape(size=size), 1) for name, size in SIZES.items()]
    plan = replace(settings.plan, first_events=400, events_max=100_000)
    table = table_of(
        "sizes",
        "By the size of the envelope",
        f"WS /v1/publish, one event a frame, {SOCKETS} sockets, each with up to {WINDOW:,} events or 4 MiB unanswered.",
        in_turns(contenders, plan, settings.directory),
    )
    rows = [
        msgspec.structs.replace(
            row, figures={**row.figures, "mb": row.figures[RATE] * size / 1e6, "bytes": float(size)}
        )
        for row, size in zip(table.rows, SIZES.values(), strict=True)
    ]
    columns = {**table.columns, "mb": "MB a second"}
    yield msgspec.structs.replace(table, rows=rows, columns=columns, ratios=[])


def duplicates(settings: Settings) -> Iterator[Table]:
    """By the share of duplicates."""
    shape = Shape()
    contenders = [
        courier_over_sockets(f"{share:.0%} duplicates", shape, 1, duplicates=share) for share in (0.0, 0.1, 0.5)
    ]
    yield table_of(
        "duplicates",
        "By the share of duplicates",
        "WS /v1/publish, one event a frame. A duplicate repeats an event that the same socket sent before in this "
        "round, at random; it is answered like every event after a commit, with the sequence of its original.",
        in_turns(contenders, settings.plan, settings.directory),
    )

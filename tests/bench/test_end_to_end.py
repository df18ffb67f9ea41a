"""The harness beside the real broker: small rounds of each kind, whose ledger is looked at."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.failure import BenchmarkFailed
from bench.load.events import Shape
from bench.load.paced import percentile
from bench.scenarios.disk import _grown
from bench.scenarios.end_to_end import Flow, broker_contender, broker_peer, check_all_gone
from bench.scenarios.latency import paced_lap
from bench.scenarios.publish import courier_over_sockets, http_contenders, share, socket_contenders
from bench.systems.courier import check_ledger, courier
from bench.systems.embedded import broker_inside, by_callers, by_many, by_pipe
from bench.turns import Contender, Plan, in_turns
from bench.wire import websocket
from bench.wire.http import connect

PLAN = Plan(seconds=0.02, rounds=1, first_events=200, events_max=600)
FLOW = Flow(consumers=3, producers=2)


@pytest.mark.parametrize(
    "contenders",
    [
        http_contenders(Shape()),
        socket_contenders(Shape(), 1),
        socket_contenders(Shape(), 10),
        [courier_over_sockets("half are duplicates", Shape(), 1, duplicates=0.5)],
        [courier_over_sockets("large", Shape(size=65_536), 1)],
        [broker_contender("a frame each", replace(FLOW, batch=0))],
        [broker_contender("many a frame", replace(FLOW, per_frame=10))],
        [broker_contender("in memory", replace(FLOW, durability="memory"))],
        [_grown("5,000 rows", 5_000, lambda number: number)],
    ],
    ids=lambda contenders: contenders[0].name,
)
def test_a_round_ends_with_everything_accounted_for(tmp_path: Path, contenders: list[Contender]) -> None:
    for standing in in_turns(contenders, PLAN, tmp_path):
        assert len(standing.rates) == 1
        assert standing.rate > 0


@pytest.mark.parametrize("cycle", [by_many(100), by_callers(10), by_pipe], ids=["many", "callers", "pipe"])
@pytest.mark.parametrize("durable", [True, False])
def test_a_round_inside_a_program_has_everything_delivered(tmp_path: Path, cycle: object, durable: bool) -> None:
    with broker_inside(tmp_path if durable else None, Shape(), cycle) as turn:  # type: ignore[arg-type]
        assert turn(1, 300).seconds > 0
        assert turn(301, 300).seconds > 0


def test_latencies_are_those_of_every_event(tmp_path: Path) -> None:
    flow = replace(FLOW, batch=0, window=10**9)
    with courier(tmp_path) as broker:
        found = paced_lap(broker_peer(broker, flow), flow, rate=1_000.0)(1, 100)
    assert len(found) == 100
    assert 0 < percentile(found, 50) <= found[-1]


def test_an_event_that_was_acknowledged_and_is_not_in_the_ledger_fails_the_run(tmp_path: Path) -> None:
    with courier(tmp_path):
        pass
    check_ledger(tmp_path, 0, unfinished=0)
    with pytest.raises(BenchmarkFailed, match="1 events were acknowledged, and 0 are in the ledger"):
        check_ledger(tmp_path, 1)


def test_an_event_that_still_waits_fails_the_run(tmp_path: Path) -> None:
    with courier(tmp_path) as broker:
        connection, _ = websocket.open_socket(broker.port, "/v1/publish")
        with connection:
            connection.sendall(websocket.publishing(FLOW.shape, [1], 1).out)
            received = b""
            while b'"ack":' not in received:
                received += connection.recv(4096)
        with pytest.raises(BenchmarkFailed, match="all was acknowledged, but 1 wait and 0 are held"):
            check_all_gone(broker, FLOW)
    with pytest.raises(BenchmarkFailed, match="0 events should wait in the ledger, and 1 do"):
        check_ledger(tmp_path, 1, unfinished=0)


def test_a_broker_that_is_gone_cannot_be_measured(tmp_path: Path) -> None:
    with courier(tmp_path) as broker:
        port = broker.port
    with pytest.raises(ConnectionRefusedError):
        connect(port)


@pytest.mark.parametrize(("count", "connections", "step"), [(10, 4, 1), (3, 4, 1), (1_000, 4, 100), (100, 4, 100)])
def test_every_event_is_on_one_connection(count: int, connections: int, step: int) -> None:
    cut = share(1, count, connections, step)
    assert [number for numbers in cut for number in numbers] == list(range(1, count + 1))
    assert all(len(numbers) % step == 0 for numbers in cut)
    assert len(cut) <= connections

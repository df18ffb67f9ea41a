"""Other brokers as they are: started, driven for a moment, ended. Those that are not installed are skipped."""

import socket
import sys
from pathlib import Path

import pytest

from bench.failure import BenchmarkFailed, NotInstalled
from bench.load.events import Shape
from bench.scenarios.end_to_end import Flow
from bench.scenarios.in_process import LIBRARIES
from bench.scenarios.peers import PEERS, peer_contender
from bench.systems.daemon import ask, daemon, free_port, program
from bench.turns import Plan, in_turns

PLAN = Plan(seconds=0.02, rounds=1, first_events=100, events_max=300)

SERVER = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    listening.accept()[0].close()
"""


@pytest.mark.parametrize("name", PEERS)
def test_a_round_through_another_broker_is_checked_like_one_through_courier(name: str, tmp_path: Path) -> None:
    (standing,) = in_turns([peer_contender(name, Flow(consumers=2, producers=2))], PLAN, tmp_path)
    if standing.skipped:
        pytest.skip(standing.skipped)
    assert len(standing.rates) == 1


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_round_through_another_library_is_checked(name: str, tmp_path: Path) -> None:
    start, _ = LIBRARIES[name]
    try:
        with start(tmp_path, Shape()) as turn:
            assert turn(1, 50).seconds > 0
    except NotInstalled as missing:
        pytest.skip(str(missing))


def test_a_program_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(NotInstalled, match="no-such-server is not installed: make bench-peers"):
        program("no-such-server", "make bench-peers")
    assert Path(program("sh", "")).is_file()


def test_a_server_runs_as_long_as_it_is_needed(tmp_path: Path) -> None:
    port = free_port()
    with daemon([sys.executable, "-c", SERVER, str(port)], tmp_path, port):
        socket.create_connection(("127.0.0.1", port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_server_that_does_not_start_fails_with_what_it_said(tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "raise SystemExit('the port of this one is wrong')"]
    with pytest.raises(BenchmarkFailed, match="the port of this one is wrong"), daemon(failing, tmp_path, free_port()):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["said.txt"]


def test_a_server_that_hangs_up_instead_of_answering_fails_the_run(tmp_path: Path) -> None:
    port = free_port()
    with (
        daemon([sys.executable, "-c", SERVER, str(port)], tmp_path, port),
        socket.create_connection(("127.0.0.1", port)) as connection,
        pytest.raises((BenchmarkFailed, ConnectionError)),
    ):
        ask(connection, b"HELLO\r\n", b"OK\r\n")

"""What the broker keeps of the speed of bare handlers that only parse and answer: gates, as ratios within one run.

The generator and the server share the cores, and so do both contenders, in turns. The margins are far below what is
measured: they are to find what made the hot path slow, on any machine, and not to measure it.
"""

from pathlib import Path

import pytest

import _fast
from bench.load.events import Shape
from bench.scenarios.publish import http_contenders, socket_contenders
from bench.turns import Contender, Plan, in_turns

HTTP_RATIO_MIN = 0.7
SOCKET_RATIO_MIN = 1.0
WITHOUT_SYNCS = {"journal": {"synchronous": "normal"}}
"""With one request under way on each connection, a disk that others write to is all that would be measured."""

PLAN = Plan(seconds=0.5, rounds=5, events_max=200_000)

pytestmark = pytest.mark.skipif(_fast.DEBUG_BUILD, reason="a debug build is not built for speed")


def ratio(contenders: list[Contender], directory: Path) -> float:
    """How many times as fast as the bare handler the broker is."""
    broker, handler = in_turns(contenders[:2], PLAN, directory)
    found = broker.ratio(handler)
    print(f"broker {broker.rate:,.0f} a second, bare handler {handler.rate:,.0f}: {found:.2f}")
    return found


def test_a_request_keeps_its_part_of_the_rate_of_a_bare_handler(tmp_path: Path) -> None:
    assert ratio(http_contenders(Shape(), WITHOUT_SYNCS), tmp_path) >= HTTP_RATIO_MIN


def test_a_frame_keeps_its_part_of_the_rate_of_a_bare_handler(tmp_path: Path) -> None:
    assert ratio(socket_contenders(Shape(), 1), tmp_path) >= SOCKET_RATIO_MIN

"""What durability costs: the journal against the bare loops that it is made of, on the same schema.

The gates are ratios within one run, from rounds in turns. `make bench-parts` gives the figures; how they hold when the
ledger grows, `python -m bench ledger --full`.
"""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.journal_load import (
    Contender,
    bare_executemany,
    bare_loop,
    commit_latencies,
    in_batches,
    make_events,
    spinning_thread,
    through_journal,
)

CONTENDERS: dict[str, Contender] = {
    "journal": through_journal,
    "bare loop": bare_loop,
    "executemany": bare_executemany,
}
BATCHES = (1, 10, 100, 1_000, 5_000)
EVENTS = 50_000
ROUNDS = 5
OF_BARE_LOOP_MIN = 0.8
BESIDE_SPINNER_MIN = 0.5
SWITCH_INTERVAL_SECONDS = 0.0005
"""As `courier serve` sets it."""


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    yield
    sys.setswitchinterval(before)


def rate(contender: Contender, directory: Path, batch: int, count: int) -> float:
    """Events a second into an empty ledger."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return count / contender(directory, in_batches(make_events(0, count), batch))


def best_rates(directory: Path, batch: int, count: int, *contenders: Contender) -> list[float]:
    """The best of several rounds of each, in turns, so that a busy moment hits all of them."""
    rounds = [[rate(contender, directory / "run", batch, count) for contender in contenders] for _ in range(ROUNDS)]
    return [max(rates) for rates in zip(*rounds, strict=True)]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("contender", CONTENDERS)
def test_rate_by_batch_size(benchmark: Any, tmp_path: Path, contender: str, batch: int) -> None:
    count = min(EVENTS, max(500, batch * 20))
    rates: list[float] = []
    benchmark.pedantic(
        lambda: rates.append(rate(CONTENDERS[contender], tmp_path / "run", batch, count)), rounds=3, iterations=1
    )
    benchmark.group = f"journal, batches of {batch}"
    benchmark.extra_info["events a second"] = round(max(rates))


def test_latency_of_a_lone_commit(benchmark: Any, tmp_path: Path) -> None:
    seconds = benchmark.pedantic(lambda: asyncio.run(commit_latencies(tmp_path, 2_000)), rounds=1, iterations=1)
    ordered = sorted(seconds)
    benchmark.group = "journal, latency"
    benchmark.extra_info["p50 ms"] = round(ordered[len(ordered) // 2] * 1000, 3)
    benchmark.extra_info["p99 ms"] = round(ordered[len(ordered) * 99 // 100] * 1000, 3)


@pytest.mark.usefixtures("quick_switches")
def test_the_journal_keeps_four_fifths_of_the_bare_loop(tmp_path: Path) -> None:
    journal, loop = best_rates(tmp_path, 500, EVENTS, through_journal, bare_loop)
    assert journal >= OF_BARE_LOOP_MIN * loop, f"journal {journal:,.0f}/s, bare loop {loop:,.0f}/s"


@pytest.mark.usefixtures("quick_switches")
def test_the_journal_keeps_half_of_its_rate_beside_a_spinning_thread(tmp_path: Path) -> None:
    (idle,) = best_rates(tmp_path, 500, EVENTS, through_journal)
    with spinning_thread():
        (beside,) = best_rates(tmp_path, 500, EVENTS, through_journal)
    assert beside >= BESIDE_SPINNER_MIN * idle, f"idle {idle:,.0f}/s, beside a spinning thread {beside:,.0f}/s"

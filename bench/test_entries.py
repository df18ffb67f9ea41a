"""What compiling entries was worth: the way of five hundred events to their acknowledgement, beside the model.

A gate like those of `test_fast.py`: a ratio within one run, from rounds in turns, as a busy machine slows both.
"""

import gc
from statistics import median
from time import perf_counter_ns
from typing import Any

import pytest

import _fast
from broker.contracts.inbound import InboundEvent
from tests.fast import entries_model

EVENTS = 500
HOLDERS = 8
ROUNDS = 9
LARGE = 1 << 30
RATIO_MIN = 6.0  # about half of what was measured


def _way_of(module: Any) -> int:
    """How many nanoseconds the entries of one commit take: made, leased, marked, framed, held, let go, reported."""
    events = [
        (seq, InboundEvent("courier", "s", "t", "stream:s", f"e-{seq}", 5, b"x" * 300, None))
        for seq in range(1, EVENTS + 1)
    ]
    holders = [f"holder {number % HOLDERS}" for number in range(EVENTS)]
    leases, latency, counters = module.Leases(EVENTS), module.Histogram(), module.Counters()
    held: dict[int, Any] = {}
    started = perf_counter_ns()
    for name, run in module.stream_runs(events):
        entries = module.entries_of(name, run, "bus", None)
        shares = module.lease_out(entries, holders, leases, 1, 1000, 30, latency, counters)
        for share in shares.values():
            module.hold(held, share)
            module.delivery_frames(module.waiting_of(share), 100, LARGE)
        ended, lost = module.let_go(held, list(range(1, EVENTS + 1)), leases)
        changes = module.changes_of(ended, 1, 7)
    took = perf_counter_ns() - started
    assert (len(changes), lost, len(leases), counters.delivered) == (EVENTS, [], 0, EVENTS)
    return took


@pytest.mark.skipif(_fast.DEBUG_BUILD, reason="a debug build is not built for speed")
def test_the_compiled_way_of_entries_is_six_times_as_fast_as_the_models() -> None:
    ratios = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            model = _way_of(entries_model)
            ratios.append(model / _way_of(_fast))
    finally:
        gc.enable()
    assert median(ratios) >= RATIO_MIN, ratios

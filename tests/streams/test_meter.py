"""The figures of a stream: rates, latency, and what `stats` makes of them."""

import pytest

from broker.clock import ManualClock
from broker.streams.meter import RATE_SECONDS, Rate
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, Inbox


@pytest.mark.parametrize("per_second", [1, 50, 10_000])
def test_a_steady_rate_is_told_within_a_tenth_and_is_forgotten_when_it_ends(per_second: int) -> None:
    rate = Rate()
    for tenth in range(600):
        rate.mark(per_second // 10 if per_second >= 10 else int(tenth % 10 == 0), tenth * 100)
    assert rate.per_second(60_000) == pytest.approx(per_second, rel=0.1)
    assert rate.per_second(60_000 + int(RATE_SECONDS * 10_000)) < per_second / 1000


def test_a_rate_of_nothing_is_nothing() -> None:
    assert Rate().per_second(123) == 0


async def test_an_unknown_stream_has_no_stats_and_an_empty_one_has_zeros(registry: Registry) -> None:
    assert registry.stats("s") is None
    registry.open("s")
    stats = registry.stats("s")
    assert (stats["depth"], stats["inflight"], stats["rateIn"], stats["latP95"], stats["lastTs"]) == (
        0,
        0,
        0,
        None,
        None,
    )


async def test_the_stats_tell_how_a_stream_is_doing(registry: Registry, ledger: FakeLedger, clock: ManualClock) -> None:
    events = ledger.write_all("s", "a", "b", "c", "d")
    received_at = clock.wall_us()
    registry.committed([(seq, event._replace(received_at=received_at)) for seq, event in events])
    clock.advance(40)
    subscription = registry.subscribe("s", Inbox())
    registry.grant(subscription, 3)
    registry.ack(subscription, "a")
    stats = registry.stats("s")
    assert (stats["depth"], stats["inflight"], stats["subscribers"]) == (1, 2, 1)
    assert stats["latP50"] == pytest.approx(40, rel=0.03)
    assert stats["latP95"] == pytest.approx(40, rel=0.03)
    assert stats["rateIn"] == pytest.approx(4 / RATE_SECONDS, rel=0.05)
    assert stats["rateOut"] == pytest.approx(3 / RATE_SECONDS, rel=0.05)
    assert stats["lastTs"] == "2026-02-19T18:30:00.000Z"
    assert stats["totals"] == {"in": 4, "out": 3, "ack": 1, "nack": 0, "redelivered": 0, "dead": 0}
    assert registry.names() == ["s"]

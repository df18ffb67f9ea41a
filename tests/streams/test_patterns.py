"""A subscription to a pattern: one credit for all of its streams, and streams that come later."""

import pytest

from broker.errors import InvalidRequest, LeaseNotHeld
from broker.limits import CREDIT_MAX
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, join

PATTERN = "agents/*/inbox"


async def test_it_takes_from_streams_that_were_there_and_from_those_that_come_later(
    registry: Registry, ledger: FakeLedger
) -> None:
    registry.committed(ledger.write_all("agents/Jen/inbox", "a"))
    inbox, _ = join(registry, PATTERN, 10)
    assert inbox.ids == ["a"]
    registry.committed(ledger.write_all("agents/Ada/inbox", "b"))
    registry.committed(ledger.write_all("agents/Ada/outbox", "c"))
    assert inbox.ids == ["a", "b"]


async def test_the_credit_is_shared_by_all_streams(registry: Registry, ledger: FakeLedger) -> None:
    inbox, subscription = join(registry, PATTERN, 3)
    for name in ("Ada", "Jen"):
        registry.committed(ledger.write_all(f"agents/{name}/inbox", *(f"{name}-{n}" for n in range(3))))
    assert inbox.ids == ["Ada-0", "Ada-1", "Ada-2"]
    registry.grant(subscription, 2)
    assert inbox.ids[3:] == ["Jen-0", "Jen-1"]
    registry.grant(subscription, 10)
    assert inbox.ids[5:] == ["Jen-2"]
    assert subscription.credit == 9


async def test_without_credit_nothing_is_delivered(registry: Registry, ledger: FakeLedger) -> None:
    inbox, _ = join(registry, PATTERN)
    registry.committed(ledger.write_all("agents/Jen/inbox", "a", "b"))
    assert inbox.ids == []
    assert registry.find("agents/Jen/inbox").in_flight == 0


async def test_it_takes_turns_with_those_who_want_one_stream_only(registry: Registry, ledger: FakeLedger) -> None:
    every, _ = join(registry, PATTERN, 10)
    one, _ = join(registry, "agents/Jen/inbox", 10)
    registry.committed(ledger.write_all("agents/Jen/inbox", *"abcdef"))
    assert {"".join(every.ids), "".join(one.ids)} == {"ace", "bdf"}


async def test_who_has_no_credit_left_does_not_keep_others_from_theirs(registry: Registry, ledger: FakeLedger) -> None:
    every, subscription = join(registry, PATTERN, 1)
    one, _ = join(registry, "agents/Jen/inbox", 10)
    registry.committed(ledger.write_all("agents/Jen/inbox", *"abcd"))
    assert len(every.ids) == 1
    assert len(one.ids) == 3
    registry.grant(subscription, 1)
    registry.committed(ledger.write_all("agents/Jen/inbox", *"ef"))
    assert len(every.ids) == 2


async def test_two_events_with_one_id_are_told_apart_by_their_sequence(registry: Registry, ledger: FakeLedger) -> None:
    inbox, subscription = join(registry, PATTERN, 10)
    for name in ("Ada", "Jen", "Zoe"):
        registry.committed(ledger.write_all(f"agents/{name}/inbox", "same"))
    assert inbox.ids == ["same"] * 3
    for act in (registry.ack, registry.nack, lambda sub, key: registry.extend(sub, key, 1000)):
        with pytest.raises(InvalidRequest, match="3 events with the id 'same' are held; name the one you mean by"):
            act(subscription, "same")
    registry.ack(subscription, 2)
    with pytest.raises(InvalidRequest, match="2 events"):
        registry.ack(subscription, "same")
    with pytest.raises(LeaseNotHeld):
        registry.ack(subscription, 2)
    registry.ack(subscription, 1)
    registry.ack(subscription, "same")
    assert [row.state for row in ledger.rows] == ["processed"] * 3
    with pytest.raises(LeaseNotHeld):
        registry.ack(subscription, "same")


async def test_when_it_leaves_everything_goes_back_to_its_own_stream(registry: Registry, ledger: FakeLedger) -> None:
    _, subscription = join(registry, PATTERN, 10)
    for name in ("Ada", "Jen"):
        registry.committed(ledger.write_all(f"agents/{name}/inbox", f"{name}-1", f"{name}-2"))
    registry.unsubscribe(subscription)
    for name in ("Ada", "Jen"):
        inbox, _ = join(registry, f"agents/{name}/inbox", 10)
        assert inbox.deliveries == [(f"{name}-1", 2), (f"{name}-2", 2)]
    registry.committed(ledger.write_all("agents/New/inbox", "x"))
    assert len(registry.find("agents/New/inbox").credits) == 0


async def test_the_credit_of_a_pattern_has_the_same_bounds(registry: Registry) -> None:
    _, subscription = join(registry, PATTERN)
    for credit in (0, CREDIT_MAX + 1):
        with pytest.raises(InvalidRequest, match="credit must be from 1"):
            registry.grant(subscription, credit)
    registry.grant(subscription, CREDIT_MAX)
    with pytest.raises(InvalidRequest, match="would pass its bound"):
        registry.grant(subscription, 1)


async def test_many_subscribers_with_one_credit_get_equal_shares(registry: Registry, ledger: FakeLedger) -> None:
    players = [join(registry, PATTERN if number % 2 else "agents/Jen/inbox", 1) for number in range(10)]
    seen = [0] * len(players)
    for batch in range(100):
        registry.committed(ledger.write_all("agents/Jen/inbox", *(f"{batch}-{n}" for n in range(10))))
        for number, (inbox, subscription) in enumerate(players):
            for event_id in inbox.ids[seen[number] :]:
                registry.ack(subscription, event_id)
            fresh = len(inbox.ids) - seen[number]
            seen[number] = len(inbox.ids)
            if fresh:
                registry.grant(subscription, fresh)
    assert sum(seen) == pytest.approx(1000, abs=10)
    assert max(seen) - min(seen) <= 1


async def test_a_long_stream_does_not_keep_the_credit_from_the_others_of_the_pattern(
    registry: Registry, ledger: FakeLedger
) -> None:
    for name in ("Ada", "Jen", "Zoe"):
        registry.committed(ledger.write_all(f"agents/{name}/inbox", *(f"{name}-{n}" for n in range(3))))
    inbox, subscription = join(registry, PATTERN)
    for _ in range(9):
        registry.grant(subscription, 1)
    assert inbox.ids == [f"{name}-{n}" for n in range(3) for name in ("Ada", "Jen", "Zoe")]


async def test_a_grant_looks_at_no_more_streams_than_it_has_credit_for(registry: Registry, ledger: FakeLedger) -> None:
    for number in range(10):
        registry.committed(ledger.write_all(f"agents/{number}/inbox", f"{number}-a", f"{number}-b"))
    inbox, subscription = join(registry, PATTERN)
    asked = list(subscription.passed)
    assert len(asked) == 10
    registry.grant(subscription, 1)
    assert inbox.ids == ["0-a"]
    assert list(subscription.passed) == [*asked[1:], asked[0]]

"""Which delivery an answer is for: fenced by the attempt, named by id or sequence; and what was never sent."""

import pytest

from broker.clock import ManualClock
from broker.deliveries.outbox import DeliveryQueue
from broker.errors import LeaseNotHeld
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, Inbox


async def test_a_late_answer_to_an_earlier_attempt_is_refused_also_on_the_same_connection(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    inbox = Inbox()
    subscription = registry.subscribe("s", inbox)
    registry.grant(subscription, 10)
    registry.committed(ledger.write_all("s", "a"))
    clock.advance(1000)
    registry.expire()
    assert inbox.deliveries == [("a", 1), ("a", 2)]
    for late in (
        lambda: registry.ack(subscription, "a", 1),
        lambda: registry.nack(subscription, 1, 0, 1),
        lambda: registry.extend(subscription, "a", 1000, 1),
    ):
        with pytest.raises(LeaseNotHeld):
            late()
    assert ledger.state_of("a") == "pending"
    registry.ack(subscription, "a", 2)
    assert ledger.state_of("a") == "processed"


async def test_the_refusal_names_what_was_named(registry: Registry) -> None:
    subscription = registry.subscribe("s", Inbox())
    with pytest.raises(LeaseNotHeld) as refused:
        registry.ack(subscription, "a")
    assert refused.value.detail == {"id": "a"}
    with pytest.raises(LeaseNotHeld) as refused:
        registry.ack(subscription, 7)
    assert refused.value.detail == {"seq": 7}


async def test_deliveries_that_were_never_sent_do_not_count_as_attempts(registry: Registry, ledger: FakeLedger) -> None:
    subscription = registry.subscribe("s", Inbox())
    registry.grant(subscription, 3)
    registry.committed(ledger.write_all("s", "a", "b", "c"))
    unsent = {entry for entry in subscription.entries.values() if entry.id != "a"}
    registry.unsubscribe(subscription, unsent)
    inbox = Inbox()
    registry.grant(registry.subscribe("s", inbox), 3)
    assert inbox.deliveries == [("a", 2), ("b", 1), ("c", 1)]
    assert registry.find("s").counters.redelivered == 1


async def test_an_event_that_is_never_sent_is_never_given_up(registry: Registry, ledger: FakeLedger) -> None:
    registry.committed(ledger.write_all("s", "a"))
    for _ in range(10):  # max_deliveries is 3
        subscription = registry.subscribe("s", Inbox())
        registry.grant(subscription, 1)
        registry.unsubscribe(subscription, set(subscription.entries.values()))
    assert ledger.state_of("a") == "pending"
    assert registry.find("s").pending == 1


async def test_a_lease_that_is_held_is_known(registry: Registry, ledger: FakeLedger) -> None:
    subscription = registry.subscribe("s", Inbox())
    registry.committed(ledger.write_all("s", "a"))
    assert not registry.is_leased("s", 1)
    registry.grant(subscription, 1)
    assert registry.is_leased("s", 1)
    registry.ack(subscription, "a")
    assert not registry.is_leased("s", 1)


async def test_a_lease_that_ran_out_before_its_event_left_the_broker_is_no_attempt(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    queue = DeliveryQueue()
    registry.grant(registry.subscribe("s", queue), 100)
    registry.committed(ledger.write_all("s", "a"))
    for _ in range(10):
        clock.advance(1000)
        registry.expire()
    assert ledger.rows[0].attempts == 0
    for attempt in (1, 2):
        queue.take_now()
        clock.advance(1000)
        registry.expire()
        assert (ledger.state_of("a"), ledger.rows[0].attempts) == ("pending", attempt)
    queue.take_now()
    clock.advance(1000)
    registry.expire()
    assert (ledger.state_of("a"), ledger.rows[0].attempts) == ("dead", 3)

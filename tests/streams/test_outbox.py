"""The deliveries that wait for one reader."""

import asyncio

from broker.clock import ManualClock
from broker.deliveries.outbox import DeliveryQueue
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, Inbox


async def test_everything_that_waits_is_taken_at_once_and_in_order(registry: Registry, ledger: FakeLedger) -> None:
    queue = DeliveryQueue()
    registry.grant(registry.subscribe("s", queue), 10)
    registry.committed(ledger.write_all("s", "a", "b"))
    registry.committed(ledger.write_all("s", "c"))
    assert [(entry.id, attempt) for entry, attempt in queue.take(10, 10_000)] == [("a", 1), ("b", 1), ("c", 1)]


async def test_a_taker_waits_until_there_is_something(registry: Registry, ledger: FakeLedger) -> None:
    queue = DeliveryQueue()
    registry.grant(registry.subscribe("s", queue), 10)
    taking = asyncio.create_task(queue.wait())
    await asyncio.sleep(0)
    assert not taking.done()
    registry.committed(ledger.write_all("s", "a"))
    await taking
    assert [entry.id for entry, _ in queue.take()] == ["a"]
    registry.committed(ledger.write_all("s", "b"))
    assert [entry.id for entry, _ in queue.take()] == ["b"]


async def test_a_delivery_that_waited_too_long_keeps_the_attempt_it_was(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    slow, other = DeliveryQueue(), Inbox()
    registry.grant(registry.subscribe("s", slow), 1)
    registry.committed(ledger.write_all("s", "a"))
    registry.grant(registry.subscribe("s", other), 1)
    clock.advance(1000)
    registry.expire()
    assert other.deliveries == [("a", 2)]
    assert [attempt for _, attempt in slow.take()] == [1]
    assert slow.unsent() == set()


async def test_a_batch_is_bounded_by_number_and_by_bytes(registry: Registry, ledger: FakeLedger) -> None:
    queue = DeliveryQueue()
    registry.grant(registry.subscribe("s", queue), 10)
    registry.committed(ledger.write_all("s", *"abcdef"))
    size = len(b'{"id":"a"}')
    assert [entry.id for entry, _ in queue.take(2, 10_000)] == ["a", "b"]
    assert [entry.id for entry, _ in queue.take(10, 2 * size)] == ["c", "d"]
    assert [entry.id for entry, _ in queue.take(10, 2 * size - 1)] == ["e", "f"]
    assert queue.take(10, 10_000) == []


async def test_what_nobody_took_is_unsent(registry: Registry, ledger: FakeLedger) -> None:
    queue = DeliveryQueue()
    subscription = registry.subscribe("s", queue)
    registry.grant(subscription, 10)
    registry.committed(ledger.write_all("s", "a", "b"))
    queue.take()
    assert {entry.id for entry in queue.unsent()} == {"b"}
    registry.unsubscribe(subscription, queue.unsent())
    inbox = Inbox()
    registry.grant(registry.subscribe("s", inbox), 10)
    assert inbox.deliveries == [("a", 2), ("b", 1)]

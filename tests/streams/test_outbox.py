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
    assert [(entry.id, attempt) for entry, attempt in await queue.take()] == [("a", 1), ("b", 1), ("c", 1)]


async def test_a_taker_waits_until_there_is_something(registry: Registry, ledger: FakeLedger) -> None:
    queue = DeliveryQueue()
    registry.grant(registry.subscribe("s", queue), 10)
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()
    registry.committed(ledger.write_all("s", "a"))
    assert [entry.id for entry, _ in await taking] == ["a"]
    registry.committed(ledger.write_all("s", "b"))
    assert [entry.id for entry, _ in await queue.take()] == ["b"]


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
    assert [attempt for _, attempt in await slow.take()] == [1]

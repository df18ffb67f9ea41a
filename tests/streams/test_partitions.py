"""Partition keys: events of one key are delivered in order, one in flight; others are not held up."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.clock import ManualClock
from broker.config import Streams
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, Inbox


def write(ledger: FakeLedger, *keyed: tuple[str, str | None]) -> list[tuple[int, object]]:
    """Commit events, given as (id, partition key)."""
    batch = []
    for event_id, key in keyed:
        seq, event = ledger.write("s", event_id)
        ledger.rows[-1].event = event._replace(partition_key=key)
        batch.append((seq, ledger.rows[-1].event))
    return batch


async def test_the_second_event_of_a_key_waits_for_the_first_and_the_others_do_not(
    registry: Registry, ledger: FakeLedger
) -> None:
    inbox = Inbox()
    subscription = registry.subscribe("s", inbox)
    registry.grant(subscription, 10)
    registry.committed(write(ledger, ("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", None), ("a3", "a")))
    assert inbox.ids == ["a1", "b1", "none"]
    registry.ack(subscription, "b1")
    assert inbox.ids == ["a1", "b1", "none"]
    registry.ack(subscription, "a1")
    assert inbox.ids[3:] == ["a2"]
    registry.ack(subscription, "a2")
    assert inbox.ids[4:] == ["a3"]
    registry.ack(subscription, "a3")
    registry.ack(subscription, "none")
    stream = registry.find("s")
    assert (stream.pending, stream.in_flight, stream.ring.held, stream.partitions.set_aside) == (0, 0, 0, 0)
    assert subscription.credit == 5


async def test_what_was_refused_or_ran_out_of_time_is_not_overtaken_by_its_key(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    inbox = Inbox()
    subscription = registry.subscribe("s", inbox)
    registry.grant(subscription, 10)
    registry.committed(write(ledger, ("a1", "a"), ("a2", "a"), ("b1", "b")))
    registry.nack(subscription, "a1")
    registry.nack(subscription, "a1", 500)
    assert inbox.deliveries == [("a1", 1), ("b1", 1), ("a1", 2)]
    clock.advance(500)
    registry.expire()
    assert inbox.deliveries[3:] == [("a1", 3)]
    clock.advance(1000)
    registry.expire()
    assert ledger.state_of("a1") == "dead"
    assert [each for each in inbox.deliveries if each[0].startswith("a")][3:] == [("a2", 1)]


async def test_what_a_consumer_leaves_behind_goes_out_before_the_rest_of_its_key(
    registry: Registry, ledger: FakeLedger
) -> None:
    leaving = registry.subscribe("s", Inbox())
    registry.grant(leaving, 10)
    registry.committed(write(ledger, ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")))
    registry.unsubscribe(leaving)
    inbox = Inbox()
    subscription = registry.subscribe("s", inbox)
    registry.grant(subscription, 10)
    assert inbox.deliveries == [("a1", 2), ("b1", 2)]
    registry.ack(subscription, "a1")
    registry.ack(subscription, "b1")
    assert inbox.ids[2:] == ["a2", "b2"]


def first_deliveries(deliveries: Iterable[tuple[str, int]], key: str) -> list[str]:
    seen: dict[str, None] = {}
    for event_id, _attempt in deliveries:
        if event_id.startswith(key):
            seen[event_id] = None
    return list(seen)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    keys=st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=40),
    window=st.integers(1, 8),
    choices=st.lists(st.tuples(st.sampled_from(["ack", "ack", "nack", "delay", "leave", "time"]), st.integers(0, 50))),
)
async def test_any_program_keeps_the_order_of_a_key_and_ends(
    keys: list[str], window: int, choices: list[tuple[str, int]]
) -> None:
    clock, ledger, inbox = ManualClock(), FakeLedger(), Inbox()
    registry = Registry(Streams(default_lease_ms=1000, max_deliveries=100, max_depth=window), clock, ledger)
    names = [(f"{key}{number:03}", key or None) for number, key in enumerate(keys)]
    subscription = registry.subscribe("s", inbox)
    registry.grant(subscription, 10_000)
    registry.committed(write(ledger, *names))

    async def settle() -> None:
        while registry._dispatcher.catch_up.tasks:
            for task in tuple(registry._dispatcher.catch_up.tasks):
                await task
        held = [entry.partition for entry in subscription.entries.values() if entry.partition is not None]
        assert len(held) == len(set(held)), "one in flight for each key"

    for what, where in [*choices, *(("ack", 0) for _ in range(3 * len(keys)))]:
        await settle()
        if what == "time" or not subscription.entries:
            clock.advance(1000)
            registry.expire()
        elif what == "leave":
            registry.unsubscribe(subscription)
            subscription = registry.subscribe("s", inbox)
            registry.grant(subscription, 10_000)
        else:
            seq = list(subscription.entries)[where % len(subscription.entries)]
            if what == "ack":
                registry.ack(subscription, seq)
            else:
                registry.nack(subscription, seq, 500 if what == "delay" else 0)
    await settle()
    await registry.close()
    assert [row.state for row in ledger.rows] == ["processed"] * len(keys)
    for key in "abc":
        assert first_deliveries(inbox.deliveries, key) == [name for name, own in names if own == key]

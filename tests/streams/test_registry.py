"""All streams: how they come into being, whose turn it is, and who waits for a lease."""

from collections.abc import AsyncIterator

import pytest

from broker.clock import ManualClock
from broker.config import Streams
from broker.errors import InvalidRequest, LeaseNotHeld, OverQuota, UnknownStream
from broker.limits import CREDIT_MAX, LEASE_MS_MAX, LEASE_MS_MIN, NACK_DELAY_MS_MAX
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, Inbox, join


async def test_a_stream_is_made_on_its_first_use_and_found_again(registry: Registry) -> None:
    assert registry.find("s") is None
    made = registry.open("s")
    assert registry.open("s") is registry.find("s") is made
    assert list(registry.all()) == [made]


async def test_without_leave_no_stream_is_made_but_what_is_on_disk_is_taken(
    clock: ManualClock, ledger: FakeLedger
) -> None:
    registry = Registry(Streams(auto_create=False), clock, ledger)
    for use in (registry.open, lambda name: registry.subscribe(name, Inbox())):
        with pytest.raises(UnknownStream, match=r"there is no stream 's', and streams\.autoCreate is off"):
            use("s")
    registry.committed(ledger.write_all("s", "e-1"))
    registry.recover("t", 1, 1)
    assert registry.open("s").pending == registry.open("t").pending == 1


async def test_streams_have_a_bound(registry: Registry, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.streams.registry.STREAMS_MAX", 2)
    registry.open("one")
    registry.open("two")
    registry.open("one")
    with pytest.raises(OverQuota, match="there are 2 streams already"):
        registry.open("three")
    registry.committed(ledger.write_all("three", "e-1"))
    assert registry.open("three").pending == 1


async def test_subscribers_take_turns(registry: Registry, ledger: FakeLedger) -> None:
    inboxes = [join(registry, "s", 3)[0] for _ in range(3)]
    registry.committed(ledger.write_all("s", *"abcdefghi"))
    assert ["".join(inbox.ids) for inbox in inboxes] == ["adg", "beh", "cfi"]


async def test_who_has_no_credit_is_passed_over_and_comes_back_at_the_end_of_the_line(
    registry: Registry, ledger: FakeLedger
) -> None:
    one, first = join(registry, "s", 1)
    two, _ = join(registry, "s", 10)
    registry.committed(ledger.write_all("s", *"abc"))
    registry.grant(first, 1)
    registry.committed(ledger.write_all("s", *"de"))
    assert ("".join(one.ids), "".join(two.ids)) == ("ae", "bcd")


async def test_the_counters_tell_what_happened(registry: Registry, ledger: FakeLedger, clock: ManualClock) -> None:
    _, subscription = join(registry, "s", 10)
    registry.committed(ledger.write_all("s", "a", "b", "c"))
    registry.ack(subscription, "a")
    registry.nack(subscription, "b")
    clock.advance(1000)
    registry.expire()
    stream = registry.find("s")
    assert (stream.counters.came, stream.counters.delivered, stream.counters.redelivered) == (3, 6, 3)
    assert (stream.counters.acked, stream.counters.nacked, stream.counters.dead) == (1, 1, 0)
    assert (stream.pending, stream.in_flight) == (2, 2)


async def test_a_deadline_is_counted_from_the_delivery(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    registry.committed(ledger.write_all("s", "a", "b"))
    clock.advance(5000)
    inbox, subscription = join(registry, "s", 1)
    clock.advance(999)
    registry.grant(subscription, 1)
    registry.expire()
    assert inbox.deliveries == [("a", 1), ("b", 1)]
    clock.advance(1)
    registry.grant(subscription, 9)
    registry.expire()
    assert inbox.deliveries == [("a", 1), ("b", 1), ("a", 2)]


async def test_bounds_are_checked_before_anything_changes(registry: Registry, ledger: FakeLedger) -> None:
    registry.committed(ledger.write_all("s", "a"))
    _, subscription = join(registry, "s", 1)
    for credit in (0, CREDIT_MAX + 1):
        with pytest.raises(InvalidRequest, match="credit must be from 1"):
            registry.grant(subscription, credit)
    for delay in (-1, NACK_DELAY_MS_MAX + 1):
        with pytest.raises(InvalidRequest, match="delayMs must be from 0"):
            registry.nack(subscription, "a", delay)
    for lease in (LEASE_MS_MIN - 1, LEASE_MS_MAX + 1):
        with pytest.raises(InvalidRequest, match="leaseMs must be from 100"):
            registry.extend(subscription, "a", lease)
    registry.ack(subscription, "a")
    with pytest.raises(LeaseNotHeld):
        registry.ack(subscription, "a")


async def test_a_subscriber_that_leaves_hands_over_to_who_has_credit(registry: Registry, ledger: FakeLedger) -> None:
    one, leaving = join(registry, "s", 3)
    registry.committed(ledger.write_all("s", "a", "b", "c"))
    two, _ = join(registry, "s", 2)
    registry.unsubscribe(leaving)
    assert (one.ids, two.deliveries) == (["a", "b", "c"], [("a", 2), ("b", 2)])
    three, _ = join(registry, "s", 1)
    assert three.deliveries == [("c", 2)]


async def test_a_delayed_event_outlives_the_subscriber_that_refused_it(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    _, leaving = join(registry, "s", 1)
    registry.committed(ledger.write_all("s", "a"))
    registry.nack(leaving, "a", 500)
    registry.unsubscribe(leaving)
    inbox, _ = join(registry, "s", 1)
    assert inbox.ids == []
    clock.advance(500)
    registry.expire()
    assert inbox.deliveries == [("a", 2)]


class TestWhenEveryLeaseIsGivenOut:
    """The table of leases has a bound; who waits for one must get it when it is free."""

    LEASES = 2

    @pytest.fixture
    async def registry(
        self, clock: ManualClock, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Registry]:
        monkeypatch.setattr("broker.streams.dispatch.LEASES_MAX", self.LEASES)
        registry = Registry(Streams(default_lease_ms=1000), clock, ledger)
        yield registry
        await registry.close()

    @pytest.mark.parametrize("how", ["ack", "delayed nack", "nack", "leave", "expire"])
    async def test_another_stream_gets_the_lease_that_is_given_back(
        self, registry: Registry, ledger: FakeLedger, clock: ManualClock, how: str
    ) -> None:
        _, holder = join(registry, "one", 2)
        registry.committed(ledger.write_all("one", "a", "b"))
        waiting, _ = join(registry, "two", 5)
        registry.committed(ledger.write_all("two", "c", "d", "e"))
        assert waiting.ids == []
        match how:
            case "ack":
                registry.ack(holder, "a")
            case "nack":
                registry.nack(holder, "a")
            case "delayed nack":
                registry.nack(holder, "a", 100)
            case "leave":
                registry.unsubscribe(holder)
            case "expire":
                clock.advance(1000)
                registry.expire()
        free = {"leave": 2, "expire": 2, "delayed nack": 0}.get(how, 1)
        assert waiting.ids == ["c", "d", "e"][:free]

    async def test_the_same_stream_goes_on_with_an_ack(self, registry: Registry, ledger: FakeLedger) -> None:
        inbox, subscription = join(registry, "one", 10)
        registry.committed(ledger.write_all("one", *"abcdef"))
        for done, event_id in enumerate("abcdef", start=1):
            registry.ack(subscription, event_id)
            assert "".join(inbox.ids) == "abcdef"[: done + self.LEASES]

    async def test_those_who_wait_are_served_in_turn(self, registry: Registry, ledger: FakeLedger) -> None:
        _, holder = join(registry, "one", 2)
        registry.committed(ledger.write_all("one", "a", "b"))
        two, _ = join(registry, "two", 5)
        three, _ = join(registry, "three", 5)
        registry.committed(ledger.write_all("two", "c", "d"))
        registry.committed(ledger.write_all("three", "e", "f"))
        registry.ack(holder, "a")
        registry.ack(holder, "b")
        assert (two.ids, three.ids) == (["c"], ["e"])

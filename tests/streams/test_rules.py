"""Which settings hold for a stream."""

import pytest

from broker.clock import ManualClock
from broker.config import StreamCaps, Streams
from broker.errors import UnknownStream
from broker.streams.registry import Registry
from broker.streams.rules import RuleBook, StreamRules
from tests.support.streams import FakeLedger, Inbox

GENERAL = Streams(max_depth=100, default_lease_ms=1000, max_deliveries=3)


def book(caps: dict[str, StreamCaps], **general: object) -> RuleBook:
    return RuleBook(Streams(max_depth=100, default_lease_ms=1000, max_deliveries=3, per_stream_caps=caps, **general))


def test_without_a_pattern_the_general_settings_hold() -> None:
    assert RuleBook(GENERAL).rules_of("a/b") == StreamRules(100, 1000, 3, False)
    assert book({"other/*": StreamCaps(max_depth=1)}).rules_of("a/b") == StreamRules(100, 1000, 3, False)


@pytest.mark.parametrize("order", [1, -1])
def test_the_most_specific_pattern_that_gives_a_setting_wins_whatever_the_order_of_the_file(order: int) -> None:
    caps = {
        "**": StreamCaps(max_depth=1, lease_ms=101, max_deliveries=11, durability="memory"),
        "agents/*": StreamCaps(max_depth=2, lease_ms=102),
        "agents/Jen": StreamCaps(max_depth=3),
    }
    rules = book(dict(list(caps.items())[::order]))
    assert rules.rules_of("agents/Jen") == StreamRules(3, 102, 11, True)
    assert rules.rules_of("agents/Ada") == StreamRules(2, 102, 11, True)
    assert rules.rules_of("agents/Jen/inbox") == StreamRules(1, 101, 11, True)


def test_a_pattern_can_put_a_stream_on_disk_where_the_others_are_in_memory() -> None:
    rules = book({"keep/**": StreamCaps(durability="journal")}, durability="memory")
    assert not rules.rules_of("keep/this").in_memory
    assert rules.rules_of("scratch").in_memory
    assert rules.any_in_memory
    assert not RuleBook(GENERAL).any_in_memory


async def test_a_stream_that_a_pattern_names_exists_without_auto_create(clock: ManualClock, ledger: FakeLedger) -> None:
    config = Streams(auto_create=False, per_stream_caps={"agents/*/inbox": StreamCaps(), "log": StreamCaps()})
    registry = Registry(config, clock, ledger)
    assert registry.open("log").name == "log"
    assert registry.open("agents/Jen/inbox").name == "agents/Jen/inbox"
    with pytest.raises(UnknownStream):
        registry.open("agents/Jen/outbox")


async def test_each_stream_has_its_own_lease_window_and_number_of_deliveries(
    clock: ManualClock, ledger: FakeLedger
) -> None:
    caps = {"quick": StreamCaps(lease_ms=100, max_deliveries=1, max_depth=2)}
    registry = Registry(Streams(default_lease_ms=1000, max_deliveries=3, per_stream_caps=caps), clock, ledger)
    inboxes = {}
    for name in ("quick", "slow"):
        inboxes[name] = Inbox()
        registry.grant(registry.subscribe(name, inboxes[name]), 10)
        registry.committed(ledger.write_all(name, f"{name}-1"))
    assert registry.open("quick").ring.capacity == 2
    clock.advance(100)
    registry.expire()
    assert (inboxes["quick"].deliveries, inboxes["slow"].deliveries) == ([("quick-1", 1)], [("slow-1", 1)])
    assert (ledger.state_of("quick-1"), ledger.state_of("slow-1")) == ("dead", "pending")
    clock.advance(900)
    registry.expire()
    assert inboxes["slow"].deliveries == [("slow-1", 1), ("slow-1", 2)]
    await registry.close()

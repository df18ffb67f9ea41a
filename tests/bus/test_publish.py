"""What is published is in the journal, as 004 describes its rows; what cannot be is refused with its place."""

import math
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

from broker import Broker
from broker.bus import Event, EventBus
from broker.clock import ManualClock
from broker.errors import CourierError, Draining, InvalidRequest, TooLarge
from broker.limits import ENVELOPE_BYTES_MAX, JSON_DEPTH_MAX
from tests.bus.conftest import Seen, journal_row
from tests.conftest import OpenBroker


async def test_an_event_is_persisted_before_publish_returns_its_id(broker: Broker, bus: EventBus) -> None:
    event_id = await bus.publish("task.received", "tasks", {"text": "Summarize report"}, "req-123")
    row = await journal_row(broker, event_id)
    assert (row["topic"], row["source"], row["payload"]) == ("task.received", "tasks", '{"text":"Summarize report"}')
    assert (row["correlation_id"], row["status"]) == ("req-123", "pending")
    assert (row["processed_at"], row["error"]) == (None, None)


async def test_ids_are_the_journals_and_rise(bus: EventBus) -> None:
    first, second = await bus.publish("a", "x", {}), await bus.publish("b", "x", {})
    assert 0 < first < second


async def test_a_handler_gets_the_documented_event(open_broker: OpenBroker) -> None:
    clock = ManualClock(wall_us=1_700_000_000_250_000)
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    event_id = await broker.bus.publish("alert", "ext", {"level": "warning"}, correlation_id="req-123")
    (event,) = await seen.wait(1)
    assert event == Event(event_id, "alert", "ext", {"level": "warning"}, 1_700_000_000.25, "req-123", "processing")
    with pytest.raises(FrozenInstanceError):
        event.topic = "other"  # type: ignore[misc]


async def test_without_a_correlation_there_is_none(bus: EventBus) -> None:
    seen = Seen()
    bus.subscribe("alert", seen, subscriber_id="s")
    await bus.publish("alert", "ext", {})
    assert (await seen.wait(1))[0].correlation_id is None


async def test_what_one_handler_does_to_a_payload_no_other_sees(bus: EventBus) -> None:
    async def spoil(event: Event) -> None:
        event.payload.clear()

    seen = Seen()
    bus.subscribe("alert", spoil, subscriber_id="first")
    bus.subscribe("alert", seen, subscriber_id="second")
    await bus.publish("alert", "ext", {"n": 1})
    await seen.wait(1)
    assert seen.numbers == [1]


async def test_an_event_that_was_enqueued_to_the_stream_of_a_topic_is_handled_too(
    broker: Broker, bus: EventBus
) -> None:
    seen = Seen()
    bus.subscribe("task.received", seen, subscriber_id="s")
    await broker.enqueue("topics/task.received", {"n": 7}, sender="phone", corr="c-1")
    (event,) = await seen.wait(1)
    assert (event.payload, event.source, event.correlation_id) == ({"n": 7}, "phone", "c-1")


async def test_a_broker_in_memory_has_a_bus_too() -> None:
    async with Broker.open(None) as broker:
        seen = Seen()
        broker.bus.subscribe("alert", seen, subscriber_id="s")
        await broker.bus.publish("alert", "ext", {"n": 1}, "c")
        (event,) = await seen.wait(1)
        assert (event.source, event.payload, event.correlation_id) == ("ext", {"n": 1}, "c")


def deep(levels: int) -> dict[str, Any]:
    """A dict with so many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


ITSELF: dict[str, Any] = {}
ITSELF["me"] = ITSELF

REFUSED: dict[str, tuple[Any, str]] = {
    "a list": ([1], "payload must be a dict, not of the type list"),
    "text": ("hello", "payload must be a dict"),
    "NaN": ({"a": [1, {"b": math.nan}]}, r"payload\.a\[1\]\.b is nan, which JSON does not have"),
    "infinity": ({"a": -math.inf}, r"payload\.a is -inf"),
    "a set": ({"a": {1, 2}}, r"payload\.a is of the type set"),
    "bytes": ({"a": b"x"}, r"payload\.a is of the type bytes"),
    "a time": ({"at": datetime.now(UTC)}, r"payload\.at is of the type datetime"),
    "a key that is a number": ({"a": {1: 2}}, r"payload\.a has the key 1, which is of the type int"),
    "an integer of 65 bits": ({"a": 2**64}, r"payload\.a is an integer that does not fit into 64 bits"),
    "a lone surrogate": ({"a": "\ud800"}, "payload cannot be written as JSON"),
    "too deep": (deep(JSON_DEPTH_MAX + 1), "nested deeper than 64 levels"),
    "itself": (ITSELF, "or contains itself"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_payload_that_is_not_json_is_refused_with_its_place(what: str, broker: Broker, bus: EventBus) -> None:
    payload, reason = REFUSED[what]
    with pytest.raises(InvalidRequest, match=reason):
        await bus.publish("alert", "ext", payload)
    assert broker.streams() == []


async def test_a_payload_at_its_bounds_is_taken_and_one_above_is_not(bus: EventBus) -> None:
    await bus.publish("alert", "ext", deep(JSON_DEPTH_MAX))
    await bus.publish("alert", "ext", {"n": 2**64 - 1, "m": -(2**63), "t": (1, None, True)})
    text = "x" * (ENVELOPE_BYTES_MAX - len('{"t":""}'))
    await bus.publish("alert", "ext", {"t": text})
    with pytest.raises(TooLarge, match=f"the payload has {ENVELOPE_BYTES_MAX + 1} bytes"):
        await bus.publish("alert", "ext", {"t": text + "x"})


@pytest.mark.parametrize(
    ("topic", "source", "correlation_id", "reason"),
    [
        ("", "ext", None, "topic: it is empty"),
        ("a b", "ext", None, "topic: segment 2 has a character outside"),
        ("task.*", "ext", None, "topic: segment 2 has a character outside"),
        ("a" * 249, "ext", None, "topic: it is 256 bytes long"),
        ("alert", "", None, "source: it is empty"),
        ("alert", "a:b", None, 'source: it has a ":"'),
        ("alert", "ext", "", "correlation_id: it is empty"),
        ("alert", "ext", "a\nb", "correlation_id: it has a control character"),
    ],
)
async def test_a_bad_topic_source_or_correlation_is_refused_by_name(
    bus: EventBus, topic: str, source: str, correlation_id: str | None, reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        await bus.publish(topic, source, {}, correlation_id)


async def test_a_closed_broker_publishes_nothing(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    await broker.close()
    with pytest.raises(Draining):
        await broker.bus.publish("alert", "ext", {})


async def test_a_topic_whose_stream_may_not_be_made_is_refused_to_publisher_and_subscriber(
    open_broker: OpenBroker,
) -> None:
    broker = await open_broker({"streams": {"autoCreate": False}})
    with pytest.raises(CourierError, match="autoCreate is off"):
        await broker.bus.publish("alert", "ext", {})
    with pytest.raises(CourierError, match="autoCreate is off"):
        broker.bus.subscribe("alert", Seen(), subscriber_id="s")

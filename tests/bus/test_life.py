"""Subscriptions come and go; the bus recovers, starts and stops."""

import asyncio
import logging
from pathlib import Path

import pytest

from broker import Broker
from broker.bus import Event, EventBus
from broker.errors import InvalidRequest, NotFound
from broker.limits import BUS_CONCURRENCY_MAX, BUS_RETRIES_MAX
from tests.bus.conftest import Gate, Seen, journal_row, settled
from tests.conftest import OpenBroker
from tests.support.writer import eventually


async def test_a_handler_that_unsubscribed_gets_nothing_new_and_a_topic_without_one_keeps_its_events(
    broker: Broker, bus: EventBus
) -> None:
    gate = Gate()
    subscription = bus.subscribe("alert", gate, subscriber_id="s")
    ids = [await bus.publish("alert", "ext", {"n": n}) for n in range(3)]
    await eventually(lambda: gate.inside == ids[:1])
    bus.unsubscribe(subscription)
    gate.open.set()
    await eventually(lambda: broker.stats("topics/alert")["inflight"] == 0)
    assert gate.done == ids[:1]
    assert (await journal_row(broker, ids[0]))["status"] == "done"
    seen = Seen()
    bus.subscribe("alert", seen, subscriber_id="next")
    assert [event.id for event in await seen.wait(2)] == ids[1:]
    with pytest.raises(NotFound, match="is not subscribed"):
        bus.unsubscribe(subscription)


async def test_one_of_two_handlers_may_leave(bus: EventBus) -> None:
    gone, stays = Seen(), Seen()
    subscription = bus.subscribe("alert", gone, subscriber_id="gone")
    bus.subscribe("alert", stays, subscriber_id="stays")
    bus.unsubscribe(subscription)
    await bus.publish("alert", "ext", {"n": 1})
    await stays.wait(1)
    assert gone.calls == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topic": "a b"}, "topic 'a b': segment 2 has a character"),
        ({"topic": ""}, "it is empty"),
        ({"topic": "task.*x"}, r"word 2 mixes \* with text"),
        ({"topic": "**.task"}, r"word 1 is \*\*, which may only come last"),
        ({"topic": 3}, "topic: it is not text"),
        ({"handler": 3}, "handler: int cannot be called"),
        ({"subscriber_id": ""}, "subscriber_id: it is empty"),
        ({"subscriber_id": "x" * 256}, "subscriber_id: it is 256 bytes long"),
        ({"retries": -1}, f"retries must be from 0 to {BUS_RETRIES_MAX}, not -1"),
        ({"retries": BUS_RETRIES_MAX + 1}, "retries must be"),
        ({"backoff": -0.1}, "backoff must be"),
        ({"backoff": float("nan")}, "backoff must be"),
        ({"timeout": 0}, "timeout: it must be more than 0"),
        ({"timeout": True}, "timeout must be"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"concurrency": BUS_CONCURRENCY_MAX + 1}, "concurrency must be"),
    ],
)
async def test_a_subscription_that_cannot_be_is_refused_by_name(
    bus: EventBus, options: dict[str, object], reason: str
) -> None:
    given = {"topic": "alert", "handler": Seen(), "subscriber_id": "s", **options}
    with pytest.raises(InvalidRequest, match=reason):
        bus.subscribe(given.pop("topic"), given.pop("handler"), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"retries": BUS_RETRIES_MAX}, {"concurrency": BUS_CONCURRENCY_MAX}, {"backoff": 3_600.0}]
)
async def test_a_subscription_at_its_bounds_is_taken(bus: EventBus, options: dict[str, int]) -> None:
    bus.subscribe("alert", Seen(), subscriber_id="s", **options)  # type: ignore[arg-type]


# From start to stop.


async def test_what_was_pending_and_what_was_interrupted_is_recovered_and_counted(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    gate = Gate()
    async with Broker.open(data_dir, {"bus": {"stopMs": 0}}) as broker:
        broker.bus.subscribe("alert", gate, subscriber_id="s")
        ids = [await broker.bus.publish("alert", "ext", {"n": n}) for n in range(4)]
        ids += [await broker.bus.publish("other", "ext", {"n": n}) for n in range(2)]
        await broker.enqueue("no/topic", {})
        await eventually(lambda: gate.inside == ids[:1])
    assert gate.inside == []
    caplog.clear()
    async with Broker.open(data_dir) as broker:
        assert "EventBus: recovered 6 events" in [record.getMessage() for record in caplog.records]
        seen = Seen()
        broker.bus.subscribe("**", seen, subscriber_id="s")
        await seen.wait(6)
        assert sorted(event.id for event in seen.events) == ids
        assert {event.source for event in seen.events} == {"ext"}


async def test_a_stop_waits_for_the_handlers_that_run_and_begins_no_other(broker: Broker, bus: EventBus) -> None:
    gate = Gate()
    bus.subscribe("alert", gate, subscriber_id="s")
    ids = [await bus.publish("alert", "ext", {}) for _ in range(3)]
    await eventually(lambda: gate.inside == ids[:1])
    stopping = asyncio.create_task(bus.stop())
    await asyncio.sleep(0)
    gate.open.set()
    await stopping
    assert gate.done == ids[:1]
    assert [(await journal_row(broker, each))["status"] for each in ids] == ["done", "pending", "pending"]
    await bus.start()
    await settled(broker, "alert")
    assert gate.done == ids


async def test_a_handler_may_publish_while_the_broker_closes(data_dir: Path) -> None:
    gate = Gate()
    async with Broker.open(data_dir) as broker:

        async def handle(event: Event) -> None:
            await gate(event)
            await broker.bus.publish("answer", "s", {"n": 1})

        broker.bus.subscribe("question", handle, subscriber_id="s")
        await broker.bus.publish("question", "ext", {})
        await eventually(lambda: len(gate.inside) == 1)
        asyncio.get_running_loop().call_soon(gate.open.set)
    async with Broker.open(data_dir) as broker:
        seen = Seen()
        broker.bus.subscribe("**", seen, subscriber_id="s")
        assert [event.topic for event in await seen.wait(1)] == ["answer"]


async def test_what_is_not_done_in_time_is_given_back_and_what_was_not_begun_is_no_attempt(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await open_broker({"bus": {"stopMs": 1}})
    gate = Gate()
    subscription = broker.bus.subscribe("alert", gate, subscriber_id="s")
    ids = [await broker.bus.publish("alert", "ext", {}) for _ in range(2)]
    await eventually(lambda: gate.inside == ids[:1])
    await broker.bus.stop()
    assert "1 events were not done in time" in caplog.text
    broker.bus.unsubscribe(subscription)
    async with broker.subscribe("topics/alert") as reader:
        assert [(each.seq, each.attempt) for each in [await anext(reader), await anext(reader)]] == [
            (ids[0], 2),
            (ids[1], 1),
        ]


async def test_no_handler_is_begun_after_the_journal_has_failed(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    gate = Gate()
    broker.bus.subscribe("alert", gate, subscriber_id="s")
    ids = [await broker.bus.publish("alert", "ext", {}) for _ in range(2)]
    await eventually(lambda: gate.inside == ids[:1])
    broker._core.on_failed("the disk is gone")
    gate.open.set()
    await eventually(lambda: gate.inside == [])
    await broker.bus.stop()
    assert gate.done == ids[:1]


async def test_a_topic_that_is_new_when_the_bus_starts_has_one_event_at_a_time(broker: Broker, bus: EventBus) -> None:
    await bus.stop()
    gate = Gate()
    bus.subscribe("new", gate, subscriber_id="gate")
    await bus.start()
    for number in range(4):
        await bus.publish("new", "ext", {"n": number})
    await eventually(lambda: bool(gate.inside))
    gate.open.set()
    await settled(broker, "new")
    assert gate.most == 1
    assert gate.done == sorted(gate.done)


async def test_a_handler_that_unsubscribed_keeps_its_bound_for_what_it_finishes(broker: Broker, bus: EventBus) -> None:
    """Both events have begun before it leaves: one is in it, and one comes to it from the handler before."""
    doors = [asyncio.Event(), asyncio.Event()]

    async def first(event: Event) -> None:
        await doors[event.payload["n"]].wait()

    gate = Gate()
    bus.subscribe("alert", first, subscriber_id="first", concurrency=2)
    subscription = bus.subscribe("alert", gate, subscriber_id="gate")
    ids = [await bus.publish("alert", "ext", {"n": n}) for n in range(2)]
    doors[0].set()
    await eventually(lambda: gate.inside == ids[:1])
    assert subscription.claims == 2
    bus.unsubscribe(subscription)
    doors[1].set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert gate.inside == ids[:1]
    leaving = asyncio.create_task(subscription.unclaimed())
    gate.open.set()
    await leaving
    assert gate.done == ids
    assert gate.most == 1
    await settled(broker, "alert")

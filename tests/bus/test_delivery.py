"""Handlers run in the order of registration, one after the other; an event is done when all have succeeded."""

import asyncio
import logging

import pytest

from broker import Broker
from broker.bus import Event, EventBus
from broker.limits import BUS_ERROR_CHARACTERS_MAX
from tests.bus.conftest import Gate, Seen, journal_row, settled
from tests.conftest import OpenBroker
from tests.support.writer import PATIENCE_SECONDS, eventually


async def test_handlers_run_in_the_order_of_registration_one_after_the_other(bus: EventBus) -> None:
    steps: list[str] = []
    done = asyncio.Event()

    def handler(name: str) -> object:
        async def handle(_event: Event) -> None:
            steps.append(f"{name} begins")
            await asyncio.sleep(0)
            steps.append(f"{name} ends")
            if name == "task.*":
                done.set()

        return handle

    for topic in ("task.a", "**", "task.*"):
        bus.subscribe(topic, handler(topic), subscriber_id=topic.replace("*", "x"))  # type: ignore[arg-type]
    await bus.publish("task.a", "ext", {})
    await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)
    assert steps == [f"{name} {step}" for name in ("task.a", "**", "task.*") for step in ("begins", "ends")]


async def test_an_event_is_done_only_after_all_handlers_have_succeeded(broker: Broker, bus: EventBus) -> None:
    gate, first = Gate(), Seen()
    bus.subscribe("alert", first, subscriber_id="first")
    bus.subscribe("alert", gate, subscriber_id="second")
    event_id = await bus.publish("alert", "ext", {"n": 1})
    await eventually(lambda: bool(gate.inside))
    assert (await journal_row(broker, event_id))["status"] == "pending"
    gate.open.set()
    await settled(broker, "alert")
    row = await journal_row(broker, event_id)
    assert (row["status"], row["error"]) == ("done", None)
    assert row["processed_at"] >= row["created_at"]


async def test_a_handler_that_raises_marks_the_event_failed_with_the_error_and_the_others_still_run(
    broker: Broker, bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    before, after, worse = Seen(), Seen(), Seen(fails=1)
    bus.subscribe("alert", before, subscriber_id="before")
    bus.subscribe("alert", Seen(fails=9), subscriber_id="broken")
    bus.subscribe("alert", after, subscriber_id="after")
    bus.subscribe("alert", worse, subscriber_id="worse")
    event_id = await bus.publish("alert", "ext", {"n": 1})
    await settled(broker, "alert")
    row = await journal_row(broker, event_id)
    assert (row["status"], row["error"]) == ("failed", "broken: ValueError: no 1; worse: ValueError: no 1")
    assert row["processed_at"] is not None
    assert (before.calls, after.calls, worse.calls) == (1, 1, 1)
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"subscriber_id=broken event_id={event_id}" in logged[0].getMessage()
    assert logged[0].exc_info is not None


async def test_an_event_that_failed_is_a_dead_letter_and_the_next_one_is_handled(broker: Broker, bus: EventBus) -> None:
    seen = Seen(fails=1)
    bus.subscribe("alert", seen, subscriber_id="s")
    for n in (1, 2):
        await bus.publish("alert", "ext", {"n": n})
    await settled(broker, "alert")
    assert seen.numbers == [1, 2]
    assert broker.stats("topics/alert")["totals"]["dead"] == 1


async def test_an_error_is_kept_up_to_its_bound(broker: Broker, bus: EventBus) -> None:
    async def handle(_event: Event) -> None:
        raise ValueError("x" * 5_000)

    bus.subscribe("alert", handle, subscriber_id="s")
    event_id = await bus.publish("alert", "ext", {})
    await settled(broker, "alert")
    assert len((await journal_row(broker, event_id))["error"]) == BUS_ERROR_CHARACTERS_MAX + 1


async def test_events_of_a_topic_are_handled_in_their_order_one_at_a_time(broker: Broker, bus: EventBus) -> None:
    running = 0
    seen: list[int] = []

    async def handle(event: Event) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        seen.append(event.payload["n"])
        running -= 1

    bus.subscribe("alert", handle, subscriber_id="s")
    await asyncio.gather(*(bus.publish("alert", "ext", {"n": n}) for n in range(50)))
    await settled(broker, "alert")
    assert seen == list(range(50))


async def test_a_slow_handler_on_one_topic_delays_no_other(bus: EventBus) -> None:
    gate, seen = Gate(), Seen()
    bus.subscribe("slow", gate, subscriber_id="slow")
    bus.subscribe("fast", seen, subscriber_id="fast")
    for _ in range(20):
        await bus.publish("slow", "ext", {})
    for n in range(20):
        await bus.publish("fast", "ext", {"n": n})
    await seen.wait(20)
    assert (len(gate.inside), gate.done) == (1, [])
    gate.open.set()


async def test_a_slow_handler_of_a_pattern_delays_only_the_topic_that_it_is_slow_on(bus: EventBus) -> None:
    seen = Seen()
    hold = asyncio.Event()

    async def handle(event: Event) -> None:
        if event.topic == "task.slow":
            await hold.wait()
        await seen(event)

    bus.subscribe("task.*", handle, subscriber_id="s")
    await bus.publish("task.slow", "ext", {"n": 1})
    await bus.publish("task.fast", "ext", {"n": 2})
    await seen.wait(1)
    assert seen.numbers == [2]
    hold.set()


async def test_no_more_events_are_handled_at_once_than_the_bus_has_places(open_broker: OpenBroker) -> None:
    broker = await open_broker({"bus": {"maxRunning": 2}})
    gate = Gate()
    broker.bus.subscribe("**", gate, subscriber_id="s")
    for n in range(5):
        await broker.bus.publish(f"t{n}", "ext", {})
    await eventually(lambda: len(gate.inside) == 2)
    gate.open.set()
    await eventually(lambda: len(gate.done) == 5)
    assert gate.most == 2


async def test_concurrency_is_how_many_events_of_a_topic_a_handler_has_at_once(broker: Broker, bus: EventBus) -> None:
    gate = Gate()
    bus.subscribe("alert", gate, subscriber_id="s", concurrency=7)
    for _ in range(20):
        await bus.publish("alert", "ext", {})
    await eventually(lambda: len(gate.inside) == 7)
    gate.open.set()
    await settled(broker, "alert")
    assert (gate.most, len(gate.done)) == (7, 20)


async def test_each_handler_of_a_topic_has_its_own_concurrency(broker: Broker, bus: EventBus) -> None:
    narrow, wide = Gate(), Gate()
    narrow.open.set()
    bus.subscribe("alert", narrow, subscriber_id="narrow")
    bus.subscribe("alert", wide, subscriber_id="wide", concurrency=3)
    ids = [await bus.publish("alert", "ext", {}) for _ in range(6)]
    await eventually(lambda: len(wide.inside) == 3)
    wide.open.set()
    await settled(broker, "alert")
    assert (narrow.most, narrow.done, wide.most) == (1, ids, 3)


@pytest.mark.parametrize("batch", [1, 3, 5])
async def test_a_batch_is_how_many_events_of_a_topic_are_taken_at_once(open_broker: OpenBroker, batch: int) -> None:
    broker = await open_broker({"bus": {"batch": batch}})
    gate = Gate()
    broker.bus.subscribe("alert", gate, subscriber_id="s")
    for _ in range(8):
        await broker.bus.publish("alert", "ext", {})
    assert broker.stats("topics/alert")["inflight"] == batch
    assert len(gate.inside) == 1
    gate.open.set()


async def test_events_of_a_topic_without_subscribers_wait_for_the_first_one(broker: Broker, bus: EventBus) -> None:
    ids = [await bus.publish("alert", "ext", {"n": n}) for n in range(3)]
    assert (await journal_row(broker, ids[0]))["status"] == "pending"
    seen = Seen()
    bus.subscribe("alert", seen, subscriber_id="late")
    assert [event.id for event in await seen.wait(3)] == ids


async def test_a_pattern_has_the_topics_that_wait_and_those_that_come(bus: EventBus) -> None:
    await bus.publish("task.early", "ext", {"n": 1})
    seen = Seen()
    bus.subscribe("task.*", seen, subscriber_id="s")
    await seen.wait(1)
    for n, topic in enumerate(("task.late", "task.a.b", "tasks", "other.task", "task.last"), start=2):
        await bus.publish(topic, "ext", {"n": n})
    await seen.wait(3)
    assert sorted(seen.numbers) == [1, 2, 6]

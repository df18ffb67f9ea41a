"""Handlers run in the order of registration, one after the other; an event is done when all have succeeded."""

import asyncio
import logging
from pathlib import Path

import pytest

from broker import Broker
from broker.bus import Event, EventBus
from broker.clock import ManualClock
from broker.errors import InvalidRequest, NotFound
from broker.limits import BUS_CONCURRENCY_MAX, BUS_ERROR_CHARACTERS_MAX, BUS_RETRIES_MAX, LEASE_MS_DEFAULT
from tests.bus.conftest import OpenBroker, Seen, journal_row, settled
from tests.support.writer import PATIENCE_SECONDS, eventually


class Gate:
    """A handler that stays in each event until it is let go."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.most = 0
        self.done: list[int] = []
        self.open = asyncio.Event()

    async def __call__(self, event: Event) -> None:
        self.inside.append(event.id)
        self.most = max(self.most, len(self.inside))
        try:
            await self.open.wait()
            self.done.append(event.id)
        finally:
            self.inside.remove(event.id)


def tick(broker: Broker, clock: ManualClock, milliseconds: int) -> None:
    """Let time pass, and the leases with it."""
    clock.advance(milliseconds)
    broker._core.registry.expire()


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


# Retries.


async def test_a_retry_comes_after_a_backoff_that_doubles_and_runs_no_handler_that_succeeded(
    open_broker: OpenBroker,
) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    steady, shaky, final = Seen(), Seen(fails=2), Seen()
    broker.bus.subscribe("alert", steady, subscriber_id="steady")
    broker.bus.subscribe("alert", shaky, subscriber_id="shaky", retries=2, backoff=10)
    broker.bus.subscribe("alert", final, subscriber_id="final")
    event_id = await broker.bus.publish("alert", "ext", {"n": 1})
    for calls, wait_ms in ((1, 10_000), (2, 20_000)):
        await eventually(lambda calls=calls: shaky.calls == calls and broker.stats("topics/alert")["inflight"] == 0)  # type: ignore[misc]
        tick(broker, clock, wait_ms - 1)
        assert broker.stats("topics/alert")["inflight"] == 0
        tick(broker, clock, 10)
    await eventually(lambda: shaky.calls == 3)
    await settled(broker, "alert")
    assert (steady.calls, final.calls) == (1, 1)
    assert (await journal_row(broker, event_id))["status"] == "done"


async def test_after_the_last_retry_the_event_has_failed(open_broker: OpenBroker) -> None:
    broker = await open_broker()
    shaky = Seen(fails=9)
    broker.bus.subscribe("alert", shaky, subscriber_id="shaky", retries=2, backoff=0)
    event_id = await broker.bus.publish("alert", "ext", {"n": 1})
    await settled(broker, "alert")
    assert shaky.calls == 3
    assert (await journal_row(broker, event_id))["error"] == "shaky: ValueError: no 3"


async def test_a_handler_without_retries_is_not_run_again_when_another_one_is(broker: Broker, bus: EventBus) -> None:
    once, shaky = Seen(fails=9), Seen(fails=1)
    bus.subscribe("alert", once, subscriber_id="once")
    bus.subscribe("alert", shaky, subscriber_id="shaky", retries=1, backoff=0)
    event_id = await bus.publish("alert", "ext", {"n": 1})
    await settled(broker, "alert")
    assert (once.calls, shaky.calls) == (1, 2)
    row = await journal_row(broker, event_id)
    assert (row["status"], row["error"]) == ("failed", "once: ValueError: no 1")


async def test_the_streams_bound_on_deliveries_ends_retries_with_the_handlers_error(open_broker: OpenBroker) -> None:
    broker = await open_broker({"streams": {"maxDeliveries": 2}})
    shaky = Seen(fails=99)
    broker.bus.subscribe("alert", shaky, subscriber_id="shaky", retries=50, backoff=0)
    event_id = await broker.bus.publish("alert", "ext", {"n": 1})
    await settled(broker, "alert")
    assert shaky.calls == 2
    assert (await journal_row(broker, event_id))["error"] == "shaky: ValueError: no 2"


async def test_events_behind_one_that_waits_for_its_retry_are_handled(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    shaky = Seen(fails=1)
    broker.bus.subscribe("alert", shaky, subscriber_id="shaky", retries=1, backoff=60)
    for n in range(10):
        await broker.bus.publish("alert", "ext", {"n": n})
    await shaky.wait(10)
    tick(broker, clock, 60_010)
    await shaky.wait(11)
    assert shaky.numbers == [*range(10), 0]


async def test_a_handler_that_takes_longer_than_its_timeout_has_failed(broker: Broker, bus: EventBus) -> None:
    gate, other = Gate(), Seen()
    bus.subscribe("alert", gate, subscriber_id="stuck", timeout=0.01)
    bus.subscribe("alert", other, subscriber_id="other")
    event_id = await bus.publish("alert", "ext", {"n": 1})
    await settled(broker, "alert")
    assert (await journal_row(broker, event_id))["error"] == "stuck: TimeoutError: not done after 0.01 s"
    assert (gate.inside, other.calls) == ([], 1)


async def test_a_handler_whose_own_task_was_cancelled_has_failed_and_takes_nothing_with_it(
    broker: Broker, bus: EventBus
) -> None:
    async def handle(_event: Event) -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    other = Seen()
    bus.subscribe("alert", handle, subscriber_id="odd")
    bus.subscribe("alert", other, subscriber_id="other")
    event_id = await bus.publish("alert", "ext", {"n": 1})
    await settled(broker, "alert")
    assert (await journal_row(broker, event_id))["error"] == "odd: CancelledError: cancelled from within"
    assert other.calls == 1


async def test_a_plain_function_is_a_handler_too(broker: Broker, bus: EventBus) -> None:
    seen: list[int] = []
    bus.subscribe("alert", lambda event: seen.append(event.payload["n"]), subscriber_id="s")
    await bus.publish("alert", "ext", {"n": 1})
    await settled(broker, "alert")
    assert seen == [1]


async def test_a_handler_may_run_longer_than_the_lease_and_nobody_else_gets_its_event(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    gate = Gate()
    broker.bus.subscribe("alert", gate, subscriber_id="s")
    ids = [await broker.bus.publish("alert", "ext", {}) for _ in range(3)]
    await eventually(lambda: gate.inside == ids[:1])
    async with broker.subscribe("topics/alert") as reader:
        for _ in range(4):
            tick(broker, clock, LEASE_MS_DEFAULT + 10)
        assert broker.stats("topics/alert")["inflight"] == 3
        gate.open.set()
        await settled(broker, "alert")
        assert gate.done == ids
        assert not reader._arrived
    assert broker.stats("topics/alert")["totals"]["out"] == 3


# Subscriptions.


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

"""What fails is tried again, what takes too long has failed, and a handler may outlive its lease."""

import asyncio

from broker import Broker
from broker.bus import Event, EventBus
from broker.clock import ManualClock
from broker.limits import LEASE_MS_DEFAULT
from tests.bus.conftest import Gate, Seen, journal_row, settled, tick
from tests.conftest import OpenBroker
from tests.support.writer import eventually


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

"""The figures of the bus, and of what is put off."""

from broker import Broker
from broker.bus import EventBus
from broker.clock import ManualClock
from tests.bus.conftest import Gate, Seen, settled
from tests.conftest import OpenBroker
from tests.scheduler.conftest import pass_time, scheduler
from tests.support.metrics import Scrape
from tests.support.writer import eventually


async def scrape(broker: Broker) -> Scrape:
    return Scrape((await broker.metrics.render()).decode())


async def test_what_the_handlers_did_is_counted(broker: Broker, bus: EventBus) -> None:
    gate = Gate()
    bus.subscribe("good", Seen(), subscriber_id="good")
    bus.subscribe("shaky", Seen(fails=1), subscriber_id="shaky", retries=1, backoff=0)
    bus.subscribe("bad", Seen(fails=9), subscriber_id="bad")
    bus.subscribe("slow", gate, subscriber_id="slow")
    for topic in ("good", "good", "shaky", "bad", "slow", "slow", "nobody"):
        await bus.publish(topic, "ext", {})
    for topic in ("good", "shaky", "bad"):
        await settled(broker, topic)
    await eventually(lambda: len(gate.inside) == 1)
    found = await scrape(broker)
    assert found("courier_bus_events_handled_total") == 3
    assert found("courier_bus_events_failed_total") == 1
    assert found("courier_bus_events_retried_total") == 1
    assert found("courier_bus_handler_errors_total") == 2
    assert found("courier_bus_events_running") == 1
    assert found("courier_bus_subscriptions") == 4
    waiting = {topic: found("courier_bus_events_waiting", topic=topic) for topic in ("good", "slow", "nobody")}
    assert waiting == {"good": 0, "slow": 2, "nobody": 1}
    gate.open.set()
    await settled(broker, "slow")
    assert (await scrape(broker))("courier_bus_events_running") == 0


async def test_topics_past_the_bound_on_labels_are_one(open_broker: OpenBroker) -> None:
    broker = await open_broker({"metrics": {"maxStreams": 2}})
    for n in range(5):
        await broker.bus.publish(f"t{n}", "ext", {})
    found = await scrape(broker)
    assert [found("courier_bus_events_waiting", topic=topic) for topic in ("t0", "t1", "(other)")] == [1, 1, 3]


async def test_what_is_put_off_is_counted(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    ids = [await broker.bus.schedule_at(n, "alert", "ext", {}) for n in (1, 2, 3)]
    await broker.bus.cancel(ids[1])
    pass_time(broker, clock, 1_000)
    await eventually(lambda: scheduler(broker).tally.fired == 1)
    found = await scrape(broker)
    names = ("scheduled_total", "fired_total", "cancelled_total", "refused_total", "waiting", "late_seconds_count")
    assert [found(f"courier_deferred_{name}") for name in names] == [3, 1, 1, 0, 1, 1]
    assert found("courier_deferred_late_seconds_bucket", le="0.001") == 1

"""Events that are put off: on disk at once, in the journal when it is time, once."""

import asyncio
import logging
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from broker import Broker
from broker.bus import EventBus
from broker.clock import ManualClock
from broker.errors import CourierError, Draining, InvalidRequest, TooLarge
from broker.limits import ENVELOPE_BYTES_MAX, SCHEDULE_AHEAD_SECONDS_MAX
from tests.bus.conftest import Seen, journal_row, settled
from tests.conftest import OpenBroker
from tests.scheduler.conftest import deferred_row, pass_time
from tests.support.writer import eventually

NOW = 1_700_000_000.25


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_us=round(NOW * 1e6))


async def test_an_event_is_in_deferred_events_before_schedule_at_returns_its_id(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(clock=clock)
    deferred_id = await broker.bus.schedule_at(5.5, "reminder.due", "water", {"text": "Drink water"}, "req-1")
    assert await deferred_row(broker, deferred_id) == {
        "id": deferred_id,
        "topic": "reminder.due",
        "source": "water",
        "payload": '{"text":"Drink water"}',
        "correlation_id": "req-1",
        "fire_at": NOW + 5.5,
        "status": "scheduled",
        "created_at": NOW,
        "fired_at": None,
    }


async def test_it_is_published_when_it_is_due_and_not_before(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("reminder.due", seen, subscriber_id="s")
    deferred_id = await broker.bus.schedule_at(5, "reminder.due", "water", {"n": 1}, "req-1")
    pass_time(broker, clock, 4_999)
    await broker.bus.publish("reminder.due", "now", {"n": 0})
    await seen.wait(1)
    assert seen.numbers == [0]
    pass_time(broker, clock, 1)
    event = (await seen.wait(2))[1]
    assert (event.topic, event.source, event.payload, event.correlation_id) == (
        "reminder.due", "water", {"n": 1}, "req-1",
    )  # fmt: skip
    assert event.created_at == NOW + 5
    row = await deferred_row(broker, deferred_id)
    assert (row["status"], row["fired_at"], row["fire_at"]) == ("fired", NOW + 5, NOW + 5)
    await settled(broker, "reminder.due")
    assert (await journal_row(broker, event.id))["status"] == "done"


@pytest.mark.parametrize(
    ("delay", "fire_at"),
    [
        (0, NOW),
        (8, NOW + 8),
        (0.5, NOW + 0.5),
        (timedelta(hours=2), NOW + 7_200),
        (datetime.fromtimestamp(NOW + 60, UTC), NOW + 60),
        (datetime(2001, 1, 1, tzinfo=UTC), 978_307_200.0),
        (SCHEDULE_AHEAD_SECONDS_MAX, NOW + SCHEDULE_AHEAD_SECONDS_MAX),
    ],
)
async def test_a_delay_is_seconds_or_a_timedelta_and_a_datetime_is_a_moment(
    open_broker: OpenBroker, clock: ManualClock, delay: Any, fire_at: float
) -> None:
    broker = await open_broker(clock=clock)
    deferred_id = await broker.bus.schedule_at(delay, "alert", "ext", {})
    assert (await deferred_row(broker, deferred_id))["fire_at"] == pytest.approx(fire_at, abs=1e-6)


@pytest.mark.parametrize(
    ("delay", "reason"),
    [
        (datetime(2030, 1, 1), "has no time zone, so it could mean many moments; give it one"),  # noqa: DTZ001
        (-0.001, "delay must be 0 seconds or more, not -0.001"),
        (timedelta(seconds=-1), "delay must be 0 seconds or more"),
        (math.nan, "delay must be 0 seconds or more, not nan"),
        (math.inf, "delay must be 0 seconds or more, not inf"),
        (SCHEDULE_AHEAD_SECONDS_MAX + 1, "which are 100 years"),
        (1e300, "which are 100 years"),
        (10**400, "which are 100 years"),
        (-(10**400), "delay must be 0 seconds or more"),
        (datetime(9999, 1, 1, tzinfo=UTC), "which are 100 years"),
        (True, "delay must be seconds, a timedelta or a datetime, not bool"),
        ("5", "delay must be seconds, a timedelta or a datetime, not str"),
        (None, "delay must be seconds, a timedelta or a datetime, not NoneType"),
    ],
)
async def test_a_delay_that_is_none_is_refused_with_its_reason(
    open_broker: OpenBroker, clock: ManualClock, delay: Any, reason: str
) -> None:
    broker = await open_broker(clock=clock)
    with pytest.raises(InvalidRequest, match=reason):
        await broker.bus.schedule_at(delay, "alert", "ext", {})


async def test_what_could_not_be_published_now_cannot_be_put_off_either(open_broker: OpenBroker) -> None:
    broker = await open_broker({"streams": {"autoCreate": False, "perStreamCaps": {"topics/alert": {}}}})
    with pytest.raises(InvalidRequest, match="topic: it is empty"):
        await broker.bus.schedule_at(1, "", "ext", {})
    with pytest.raises(InvalidRequest, match="payload must be a dict"):
        await broker.bus.schedule_at(1, "alert", "ext", [1])  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        await broker.bus.schedule_at(1, "alert", "ext", {"t": "x" * ENVELOPE_BYTES_MAX})
    with pytest.raises(CourierError, match="autoCreate is off"):
        await broker.bus.schedule_at(1, "other", "ext", {})
    await broker.close()
    with pytest.raises(Draining):
        await broker.bus.schedule_at(1, "alert", "ext", {})


async def test_a_cancelled_event_never_comes(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    first = await broker.bus.schedule_at(1, "alert", "ext", {"n": 1})
    await broker.bus.schedule_at(2, "alert", "ext", {"n": 2})
    assert await broker.bus.cancel(first) is True
    assert (await deferred_row(broker, first))["status"] == "cancelled"
    pass_time(broker, clock, 3_000)
    await seen.wait(1)
    assert seen.numbers == [2]
    assert await broker.bus.cancel(first) is False


async def test_what_has_fired_or_never_was_cannot_be_cancelled(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    deferred_id = await broker.bus.schedule_at(0, "alert", "ext", {"n": 1})
    await seen.wait(1)
    assert [await broker.bus.cancel(each) for each in (deferred_id, deferred_id + 1, -1)] == [False] * 3


async def test_overdue_events_fire_at_recovery_in_the_order_of_their_time_and_are_counted(
    data_dir: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    delays = [7, 3, 9, 1, 3]
    async with Broker.open(data_dir, clock=clock) as broker:
        for n, delay in enumerate(delays):
            await broker.bus.schedule_at(delay, "alert", "ext", {"n": n})
        await broker.bus.schedule_at(100, "alert", "ext", {"n": 99})
        await broker.bus.publish("other", "ext", {})
    clock.advance(10_000)
    caplog.clear()
    async with Broker.open(data_dir, clock=clock) as broker:
        assert "EventBus: recovered 6 events" in [record.getMessage() for record in caplog.records]
        seen = Seen()
        broker.bus.subscribe("alert", seen, subscriber_id="s")
        await seen.wait(5)
        assert seen.numbers == sorted(range(5), key=lambda n: (delays[n], n))


async def test_a_chain_of_deferred_events_goes_on_step_by_step(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    steps: list[int] = []

    async def check_in(event: Any) -> None:
        steps.append(event.payload["step"])
        if event.payload["step"] < event.payload["total"]:
            later = {"step": event.payload["step"] + 1, "total": event.payload["total"]}
            await broker.bus.schedule_at(8, "checkin.started", "checkin", later)

    broker.bus.subscribe("checkin.started", check_in, subscriber_id="s")
    await broker.bus.publish("checkin.started", "checkin", {"step": 1, "total": 3})
    for step in (1, 2, 3):
        await eventually(lambda step=step: len(steps) == step)  # type: ignore[misc]
        await settled(broker, "checkin.started")
        pass_time(broker, clock, 8_000)
    assert steps == [1, 2, 3]


async def test_a_broker_in_memory_puts_events_off_too(clock: ManualClock) -> None:
    async with Broker.open(None, clock=clock) as broker:
        seen = Seen()
        broker.bus.subscribe("alert", seen, subscriber_id="s")
        ids = [await broker.bus.schedule_at(n, "alert", "ext", {"n": n}, "c") for n in (3, 1, 2)]
        assert await broker.bus.cancel(ids[2]) is True
        assert await broker.bus.cancel(ids[2]) is False
        pass_time(broker, clock, 2_999)
        await seen.wait(1)
        pass_time(broker, clock, 1)
        await seen.wait(2)
        assert [(event.payload["n"], event.source, event.correlation_id) for event in seen.events] == [
            (1, "ext", "c"), (3, "ext", "c"),
        ]  # fmt: skip


async def test_a_thousand_puttings_off_at_once_are_all_kept(bus: EventBus) -> None:
    ids = await asyncio.gather(*(bus.schedule_at(60, "alert", "ext", {"n": n}) for n in range(1_000)))
    assert len(set(ids)) == 1_000

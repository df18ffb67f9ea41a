"""What is due goes once, in order and in pages; what is refused waits, and holds up nobody."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from broker import Broker
from broker.clock import ManualClock
from broker.embedded.producer import HOST
from broker.errors import DiskFull, OverQuota, Saturated
from broker.journal.deferrals import Page
from broker.limits import (
    SCHEDULE_ERROR_CHARACTERS_MAX,
    SCHEDULE_PAGE_MAX,
    SCHEDULE_RETRY_SECONDS_MAX,
    SCHEDULE_RETRY_SECONDS_MIN,
    SCHEDULE_UNANSWERED_MAX,
)
from broker.scheduler import alarm
from broker.scheduler import scheduler as scheduler_module
from broker.scheduler.scheduler import _backoff_seconds
from tests.bus.conftest import Seen
from tests.conftest import OpenBroker
from tests.scheduler.conftest import deferred_row, pass_time, query, scheduler
from tests.support.writer import eventually


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def named(broker: Broker, clock: ManualClock, stream: str, event_id: str, payload: str = "1") -> Any:
    """An admitted event of the Courier contract."""
    envelope = f'{{"id":"{event_id}","ts":"2026-01-01T00:00:00Z","to":"{stream}","type":"t","payload":{payload}}}'
    return broker._core.gate.admit_envelope(HOST, stream, envelope.encode())


class Recipient:
    """A subscriber that does one thing with what it gets."""

    def __init__(self, then: Any) -> None:
        self.deliver = then


async def fired(broker: Broker) -> list[Any]:
    """The ids of what has fired, in the order of the journal."""
    return [number for (number,) in await query(broker, "SELECT id FROM deferrals WHERE status = 'fired' ORDER BY seq")]


# The wall clock.


async def test_a_clock_that_is_set_forward_is_noticed_without_anybody_saying_so(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarm, "SCHEDULE_RECHECK_SECONDS_MAX", 0.01)
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    await broker.bus.schedule_at(3_600, "alert", "ext", {"n": 1})
    clock.set_wall_us(clock.wall_us() + 3_600_000_000)
    await seen.wait(1)


async def test_a_clock_that_is_set_back_puts_off_what_is_due_then(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    await broker.bus.schedule_at(10, "alert", "ext", {"n": 1})
    clock.set_wall_us(clock.wall_us() - 60_000_000)
    await broker.bus.schedule_at(0, "alert", "ext", {"n": 0})
    pass_time(broker, clock, 10_000)
    await seen.wait(1)
    await broker.bus.publish("alert", "ext", {"n": 5})
    await seen.wait(2)
    assert seen.numbers == [0, 5]
    pass_time(broker, clock, 60_000)
    await seen.wait(3)
    assert seen.numbers == [0, 5, 1]


# Order and pages.


async def test_more_than_a_page_goes_in_the_order_of_the_times_and_page_by_page(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await open_broker(clock=clock)
    pages: list[int] = []
    book: Any = scheduler(broker)._book
    read = book.page

    async def counted(now_us: int, but: Collection[int]) -> Page:
        page: Page = await read(now_us, but)
        pages.append(len(page.due))
        return page

    monkeypatch.setattr(book, "page", counted)
    count = 2 * SCHEDULE_PAGE_MAX + 1
    ids = await asyncio.gather(*(broker.bus.schedule_at(10 - n % 7, "alert", "ext", {"n": n}) for n in range(count)))
    pass_time(broker, clock, 10_000)
    await eventually(lambda: scheduler(broker).tally.fired == count)
    assert await fired(broker) == sorted(ids, key=lambda each: (10 - (ids.index(each)) % 7, each))
    assert [size for size in pages if size] == [SCHEDULE_PAGE_MAX, SCHEDULE_PAGE_MAX, 1]


async def test_a_page_of_large_events_ends_at_its_bytes(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.journal.deferrals.SCHEDULE_PAGE_BYTES_MAX", 2_000)
    broker = await open_broker(clock=clock)
    for n in range(5):
        await broker.bus.schedule_at(60, "alert", "ext", {"n": n, "t": "x" * 1_000})
    sizes = []
    skipped: set[int] = set()
    while (page := await scheduler(broker)._book.page(clock.wall_us() + 60_000_000, skipped)).due:
        sizes.append(len(page.due))
        skipped |= {due.id for due in page.due}
    assert sizes == [2, 2, 1]


# What is refused.


async def test_what_is_refused_waits_with_its_reason_and_holds_up_nothing_behind_it(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(
        {"streams": {"perStreamCaps": {"topics/full": {"durability": "memory", "maxDepth": 1}}}}, clock=clock
    )
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    await broker.bus.publish("full", "ext", {})
    first = await broker.bus.schedule_at(1, "full", "ext", {"n": 1})
    await broker.bus.schedule_at(2, "alert", "ext", {"n": 2})
    pass_time(broker, clock, 2_000)
    await seen.wait(1)
    await eventually(lambda: scheduler(broker).tally.refused == 1)
    (row,) = await query(broker, "SELECT attempts, status, retry_at, error FROM deferrals WHERE id = ?", first)
    assert row[:3] == (1, "scheduled", clock.wall_us() + 1_000_000)
    assert row[3].startswith("stream topics/full is full")
    pass_time(broker, clock, 1_000)
    await eventually(lambda: scheduler(broker).tally.refused == 2)
    full = Seen()
    broker.bus.subscribe("full", full, subscriber_id="s")
    await full.wait(1)
    pass_time(broker, clock, 2_000)
    assert (await full.wait(2))[1].payload == {"n": 1}
    row = (await query(broker, "SELECT status, attempts, error, retry_at FROM deferrals WHERE id = ?", first))[0]
    assert row == ("fired", 2, None, None)
    assert scheduler(broker).tally.fired == 2


async def test_what_cannot_be_an_event_any_more_is_refused_alone(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    broken = await broker.bus.schedule_at(1, "alert", "ext", {"n": 1})
    await broker.bus.schedule_at(1, "alert", "ext", {"n": 2})
    await query(broker, "UPDATE deferrals SET envelope = x'ff' WHERE id = ?", broken)
    pass_time(broker, clock, 1_000)
    await seen.wait(1)
    assert seen.numbers == [2]
    await eventually(lambda: scheduler(broker).tally.refused == 1)
    assert await broker.bus.cancel(broken) is True


def test_the_wait_after_a_refusal_doubles_up_to_its_bound() -> None:
    assert [_backoff_seconds(n) for n in (1, 2, 3)] == [SCHEDULE_RETRY_SECONDS_MIN * n for n in (1, 2, 4)]
    assert _backoff_seconds(10_000) == SCHEDULE_RETRY_SECONDS_MAX


async def test_a_reason_is_kept_up_to_its_bound(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await open_broker(clock=clock)
    deferred_id = await broker.bus.schedule_at(1, "alert", "ext", {})

    def refuse(_event: Any) -> None:
        raise OverQuota("x" * 5_000)

    monkeypatch.setattr(broker._core.gate, "pass_due", refuse)
    pass_time(broker, clock, 1_000)
    await eventually(lambda: scheduler(broker).tally.refused == 1)
    (row,) = await query(broker, "SELECT length(error) FROM deferrals WHERE id = ?", deferred_id)
    assert row == (SCHEDULE_ERROR_CHARACTERS_MAX,)


async def test_a_disk_that_is_full_for_a_while_delays_what_is_due_and_loses_nothing(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "SCHEDULE_RETRY_SECONDS_MIN", 0.001)
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    submit, refusals = broker._core.gate.submit, 0

    def full_at_first(events: Any, done: Any, job: Any = None, effects: bool = False) -> None:
        nonlocal refusals
        if job is not None and refusals < 3:
            refusals += 1
            done(DiskFull("no room"))
        else:
            submit(events, done, job, effects)

    monkeypatch.setattr(broker._core.gate, "submit", full_at_first)
    deferred_id = await broker.bus.schedule_at(1, "alert", "ext", {"n": 1})
    pass_time(broker, clock, 1_000)
    await seen.wait(1)
    assert (refusals, seen.numbers) == (3, [1])
    assert (await deferred_row(broker, deferred_id))["status"] == "fired"


async def test_no_more_is_put_off_at_once_than_may_wait_for_the_disk(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await open_broker(clock=clock)
    monkeypatch.setattr(scheduler(broker), "_unanswered", SCHEDULE_UNANSWERED_MAX - 1)
    await broker.bus.schedule_at(1, "alert", "ext", {})
    monkeypatch.setattr(scheduler(broker), "_unanswered", SCHEDULE_UNANSWERED_MAX)
    with pytest.raises(Saturated, match="wait for the disk already"):
        await broker.bus.schedule_at(1, "alert", "ext", {})


# What is cancelled while it goes.


async def test_what_is_cancelled_while_its_page_is_read_does_not_go(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await open_broker(clock=clock)
    seen = Seen()
    broker.bus.subscribe("alert", seen, subscriber_id="s")
    ids = [await broker.bus.schedule_at(1, "alert", "ext", {"n": n}) for n in range(3)]
    book: Any = scheduler(broker)._book
    read, is_read, may_go = book.page, asyncio.Event(), asyncio.Event()

    async def held(now_us: int, but: Collection[int]) -> Page:
        page: Page = await read(now_us, but)
        if page.due:
            is_read.set()
            await may_go.wait()
        return page

    monkeypatch.setattr(book, "page", held)
    pass_time(broker, clock, 1_000)
    await is_read.wait()
    assert await broker.bus.cancel(ids[1]) is True
    may_go.set()
    await seen.wait(2)
    assert seen.numbers == [0, 2]
    assert (await deferred_row(broker, ids[1]))["status"] == "cancelled"
    assert await query(broker, "SELECT count(*) FROM ledger") == [(2,)]


async def test_what_is_cancelled_while_its_page_waits_for_room_does_not_go(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await open_broker(clock=clock)
    ids = [await broker.bus.schedule_at(1, "alert", "ext", {"n": n}) for n in range(2)]
    waits, may_go = asyncio.Event(), asyncio.Event()

    async def no_room_yet(_events: int) -> None:
        waits.set()
        await may_go.wait()

    monkeypatch.setattr(scheduler(broker), "_room", no_room_yet)
    pass_time(broker, clock, 1_000)
    await waits.wait()
    assert await broker.bus.cancel(ids[0]) is True
    may_go.set()
    await eventually(lambda: scheduler(broker).tally.fired == 1)
    assert await query(broker, "SELECT count(*) FROM ledger") == [(1,)]


async def test_what_is_in_its_stream_in_memory_cannot_be_cancelled_before_it_is_marked(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker({"streams": {"durability": "memory"}}, clock=clock)
    deferred_id = await broker.bus.schedule_at(1, "alert", "ext", {"n": 1})
    cancelling: list[asyncio.Task[bool]] = []

    def cancel(_event: Any) -> None:
        cancelling.append(asyncio.ensure_future(broker.bus.cancel(deferred_id)))

    broker._core.registry.subscribe("topics/alert", Recipient(cancel)).grant(1)
    pass_time(broker, clock, 1_000)
    await eventually(lambda: bool(cancelling))
    assert await cancelling[0] is False
    assert (await deferred_row(broker, deferred_id))["status"] in ("fired", "scheduled")


async def test_what_is_cancelled_after_it_was_handed_to_the_journal_has_fired(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await open_broker(clock=clock)
    deferred_id = await broker.bus.schedule_at(1, "alert", "ext", {"n": 1})
    submit = broker._core.gate.submit
    cancelling: list[asyncio.Task[bool]] = []

    def then_cancelled(events: Any, done: Any, job: Any = None, effects: bool = False) -> None:
        submit(events, done, job, effects)
        cancelling.append(asyncio.ensure_future(broker.bus.cancel(deferred_id)))

    monkeypatch.setattr(broker._core.gate, "submit", then_cancelled)
    pass_time(broker, clock, 1_000)
    await eventually(lambda: bool(cancelling))
    assert await cancelling[0] is False
    assert await query(broker, "SELECT count(*) FROM ledger") == [(1,)]


# Identities.


async def test_what_has_a_name_is_put_off_once(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    put_off = scheduler(broker).put_off
    at = clock.wall_us() + 1_000_000
    first = await put_off(HOST, named(broker, clock, "jobs", "e-1"), at, is_named=True)
    again = await put_off(HOST, named(broker, clock, "jobs", "e-1"), at + 5, is_named=True)
    other = await put_off(HOST, named(broker, clock, "jobs", "e-1", "2"), at, is_named=True)
    elsewhere = await put_off(HOST, named(broker, clock, "jobs2", "e-1"), at, is_named=True)
    assert (first.duplicate, again, elsewhere.duplicate) == (False, first._replace(duplicate=True), False)
    assert (other.id, other.duplicate, other.conflict) == (first.id, True, True)
    pass_time(broker, clock, 1_000)
    await eventually(lambda: scheduler(broker).tally.fired == 2)
    assert await query(broker, "SELECT source_system, source_event_id FROM ledger ORDER BY seq") == [
        ("stream:jobs", "e-1"), ("stream:jobs2", "e-1"),
    ]  # fmt: skip
    late = await put_off(HOST, named(broker, clock, "jobs", "e-1"), at, is_named=True)
    assert (late.status, late.duplicate) == ("fired", True)


async def test_an_event_that_was_enqueued_meanwhile_is_not_there_twice(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(clock=clock)
    kept = await scheduler(broker).put_off(
        HOST, named(broker, clock, "jobs", "e-1"), clock.wall_us() + 1_000_000, is_named=True
    )
    receipt = await broker.enqueue("jobs", 1, id="e-1")
    pass_time(broker, clock, 1_000)
    await eventually(lambda: scheduler(broker).tally.fired == 1)
    assert await query(broker, "SELECT status, seq FROM deferrals WHERE id = ?", kept.id) == [("fired", receipt.seq)]
    assert await query(broker, "SELECT count(*) FROM ledger") == [(1,)]


async def test_what_has_fired_has_its_bytes_in_the_ledger_alone_and_shows_them_still(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(clock=clock)
    deferred_id = await broker.bus.schedule_at(1, "alert", "ext", {"n": 1})
    pass_time(broker, clock, 1_000)
    await eventually(lambda: scheduler(broker).tally.fired == 1)
    assert await query(broker, "SELECT length(envelope) FROM deferrals") == [(0,)]
    assert (await deferred_row(broker, deferred_id))["payload"] == '{"n":1}'


async def test_no_more_waits_in_a_broker_in_memory_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.scheduler.in_memory.SCHEDULE_IN_MEMORY_MAX", 2)
    async with Broker.open(None) as broker:
        first = await broker.bus.schedule_at(60, "alert", "ext", {})
        await broker.bus.schedule_at(60, "alert", "ext", {})
        with pytest.raises(OverQuota, match="2 events are put off already"):
            await broker.bus.schedule_at(60, "alert", "ext", {})
        await broker.bus.cancel(first)
        await broker.bus.schedule_at(60, "alert", "ext", {})
        assert await scheduler(broker).waiting() == 2


async def test_many_cancellations_in_memory_leave_nothing_behind() -> None:
    async with Broker.open(None) as broker:
        for _ in range(3 * SCHEDULE_PAGE_MAX):
            assert await broker.bus.cancel(await broker.bus.schedule_at(60, "alert", "ext", {}))
        assert len(scheduler(broker)._book._queue) <= SCHEDULE_PAGE_MAX  # type: ignore[attr-defined]


async def test_events_of_streams_in_memory_and_on_disk_may_be_due_together(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker({"streams": {"perStreamCaps": {"topics/m": {"durability": "memory"}}}},
                               clock=clock)  # fmt: skip
    seen = Seen()
    broker.bus.subscribe("**", seen, subscriber_id="s")
    for n, topic in enumerate(("m", "d", "m", "d")):
        await broker.bus.schedule_at(1, topic, "ext", {"n": n})
    pass_time(broker, clock, 1_000)
    await seen.wait(4)
    assert sorted(seen.numbers) == [0, 1, 2, 3]
    await eventually(lambda: scheduler(broker).tally.fired == 4)
    assert await query(broker, "SELECT status, seq IS NULL FROM deferrals ORDER BY id") == [
        ("fired", 1), ("fired", 0), ("fired", 1), ("fired", 0),
    ]  # fmt: skip

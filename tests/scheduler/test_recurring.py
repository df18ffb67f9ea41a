"""What recurs: each run once, the next one on disk with the one before, and what becomes of runs that were missed."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker import Broker
from broker.admission.auth import Principal
from broker.clock import ManualClock
from broker.core import DurableCore
from broker.embedded.producer import HOST
from broker.errors import Forbidden, InvalidRequest, NotFound, OverQuota
from broker.limits import RECURRING_NAME_BYTES_MAX
from broker.scheduler import recurring as recurring_module
from broker.scheduler.recurrence import Recurrence
from broker.scheduler.recurring import Recurring
from tests.conftest import OpenBroker
from tests.scheduler.conftest import pass_time, query, scheduler
from tests.support.writer import eventually

START = 1_771_525_800_000_000
EVERY_MINUTE = Recurrence(
    contract="bus", stream="topics/t", source="ext", content='{"n":1}', every_ms=60_000, start=START, missed="once"
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_us=START)


def recurring(broker: Broker) -> Recurring:
    """What recurs in a broker."""
    core = broker._core
    assert isinstance(core, DurableCore)
    return core.recurring


async def planned(broker: Broker, status: str) -> list[int]:
    """For which minute each run is, of those with a status."""
    rows = await query(broker, "SELECT fire_at FROM deferrals WHERE status = ? ORDER BY fire_at", status)
    return [(at - START) // 60_000_000 for (at,) in rows]


async def pass_minutes(broker: Broker, clock: ManualClock, minutes: int) -> None:
    """Minutes one by one, each with its run."""
    for _ in range(minutes):
        before = scheduler(broker).tally.fired
        pass_time(broker, clock, 60_000)
        await eventually(lambda before=before: scheduler(broker).tally.fired == before + 1)  # type: ignore[misc]


async def test_each_run_is_an_event_and_leaves_the_next_one_on_disk(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(clock=clock)
    entry = await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    assert (entry.next_at, entry.last_at) == (START + 60_000_000, None)
    await pass_minutes(broker, clock, 3)
    assert await planned(broker, "fired") == [1, 2, 3]
    assert await planned(broker, "scheduled") == [4]
    assert await query(broker, "SELECT source_system, source_event_id, envelope FROM ledger ORDER BY seq LIMIT 1") == [
        ("bus:ext", "tick@2026-02-19T18:31:00Z", b'{"n":1}')
    ]
    entry = await recurring(broker).find("tick")
    assert (entry.next_at, entry.last_at) == (START + 240_000_000, START + 180_000_000)


async def test_the_runs_of_a_stream_are_envelopes_with_an_id_and_a_time_of_their_own(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(clock=clock)
    content = '{"to":"jobs/poll","type":"t","from":"me","payload":{"big":12345678901234567890123}}'
    what = msgspec.structs.replace(EVERY_MINUTE, contract="courier", stream="jobs/poll", content=content)
    await recurring(broker).put(HOST, "poll", what)
    await pass_minutes(broker, clock, 1)
    head = b'{"id":"poll@2026-02-19T18:31:00Z","ts":"2026-02-19T18:31:00Z",'
    assert await query(broker, "SELECT envelope FROM ledger") == [(head + content[1:].encode(),)]


@pytest.mark.parametrize(("missed", "made_up_for"), [("skip", []), ("once", [1]), ("all", [1, 2, 3, 4, 5])])
async def test_runs_that_were_missed_while_the_broker_was_down(
    data_dir: Path, clock: ManualClock, missed: Any, made_up_for: list[int]
) -> None:
    what = msgspec.structs.replace(EVERY_MINUTE, missed=missed)
    async with Broker.open(data_dir, clock=clock) as broker:
        await recurring(broker).put(HOST, "tick", what)
    clock.advance(5 * 60_000 + 30_000)
    async with Broker.open(data_dir, clock=clock) as broker:
        assert await planned(broker, "fired") == made_up_for
        assert await planned(broker, "scheduled") == [6]
        assert await planned(broker, "cancelled") == ([1] if missed == "skip" else [])
        pass_time(broker, clock, 30_000)
        await eventually(lambda: scheduler(broker).tally.fired == len(made_up_for) + 1)
        assert scheduler(broker).tally.passed_over == (missed == "skip")


async def test_what_recurs_is_there_after_a_restart(data_dir: Path, clock: ManualClock) -> None:
    async with Broker.open(data_dir, clock=clock) as broker:
        await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
        await pass_minutes(broker, clock, 1)
    async with Broker.open(data_dir, clock=clock) as broker:
        assert [each.name for each in await recurring(broker).all()] == ["tick"]
        await pass_minutes(broker, clock, 2)
        assert await planned(broker, "fired") == [1, 2, 3]


async def test_what_is_put_again_replaces_the_next_run_and_repeats_none(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(clock=clock)
    await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    await pass_minutes(broker, clock, 2)
    for _ in range(2):
        entry = await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
        assert entry.next_at == START + 180_000_000
    assert await planned(broker, "scheduled") == [3]
    clock.set_wall_us(START)  # its next run by the clock is one that has been
    entry = await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    assert entry.next_at == START + 180_000_000
    other = msgspec.structs.replace(EVERY_MINUTE, every_ms=3_600_000)
    assert (await recurring(broker).put(HOST, "tick", other)).next_at == START + 3_600_000_000


async def test_what_is_deleted_runs_no_more(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    await pass_minutes(broker, clock, 1)
    await recurring(broker).delete(HOST, "tick")
    assert await planned(broker, "scheduled") == []
    assert await recurring(broker).all() == []
    for gone in (recurring(broker).delete(HOST, "tick"), recurring(broker).find("tick")):
        with pytest.raises(NotFound, match="nothing recurs under the name 'tick'"):
            await gone


async def test_the_next_run_cannot_be_cancelled_by_itself(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    ((run,),) = await query(broker, "SELECT id FROM deferrals")
    assert await broker.bus.cancel(run) is False
    assert await planned(broker, "scheduled") == [1]


@pytest.mark.parametrize("minute", [1, 2])
async def test_an_event_that_somebody_put_off_under_the_id_of_a_run_does_not_end_what_recurs(
    open_broker: OpenBroker, clock: ManualClock, minute: int
) -> None:
    broker = await open_broker(clock=clock)
    event_id = f"poll@2026-02-19T18:3{minute}:00Z"
    envelope = f'{{"id":"{event_id}","ts":"2026-01-01T00:00:00Z","to":"jobs/poll","type":"t","payload":1}}'
    event = broker._core.gate.admit_envelope(HOST, "jobs/poll", envelope.encode())
    first = await scheduler(broker).put_off(HOST, event, START, is_named=True)
    await eventually(lambda: scheduler(broker).tally.fired == 1)
    assert first.duplicate is False
    content = '{"to":"jobs/poll","type":"t","payload":2}'
    what = msgspec.structs.replace(EVERY_MINUTE, contract="courier", stream="jobs/poll", content=content)
    await recurring(broker).put(HOST, "poll", what)
    await pass_minutes(broker, clock, 3)
    assert await planned(broker, "scheduled") == [4]
    assert await query(broker, "SELECT count(*) FROM ledger") == [(3,)], "the id had been used, once"


async def test_a_run_that_is_due_while_somebody_tries_to_cancel_it_goes_all_the_same(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page is read without it, and nothing else is due that would have the next page read."""
    broker = await open_broker(clock=clock)
    await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    ((run,),) = await query(broker, "SELECT id FROM deferrals")
    book: Any = scheduler(broker)._book
    cancel, read = book.cancel, book.page
    is_read, may_go = asyncio.Event(), asyncio.Event()

    async def held(deferred_id: int, now_us: int) -> bool:
        await may_go.wait()
        is_gone: bool = await cancel(deferred_id, now_us)
        return is_gone

    async def seen(now_us: int, but: Any) -> Any:
        page = await read(now_us, but)
        if run in but:
            is_read.set()
        return page

    monkeypatch.setattr(book, "cancel", held)
    monkeypatch.setattr(book, "page", seen)
    cancelling = asyncio.ensure_future(broker.bus.cancel(run))
    await asyncio.sleep(0)
    pass_time(broker, clock, 60_000)
    await is_read.wait()
    may_go.set()
    assert await cancelling is False
    await eventually(lambda: scheduler(broker).tally.fired == 1)


async def test_a_run_that_is_refused_waits_and_the_next_one_with_it(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    caps = {"topics/t": {"durability": "memory", "maxDepth": 1}}
    broker = await open_broker({"streams": {"perStreamCaps": caps}}, clock=clock)
    await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    await pass_minutes(broker, clock, 1)
    pass_time(broker, clock, 60_000)
    await eventually(lambda: scheduler(broker).tally.refused == 1)
    entry = await recurring(broker).find("tick")
    assert entry.next_at == START + 120_000_000
    assert "is full" in str(entry.error)
    async with broker.subscribe("topics/t") as reader:
        await (await anext(reader)).ack()
        pass_time(broker, clock, 1_000)
        await eventually(lambda: scheduler(broker).tally.fired == 2)
    assert await planned(broker, "fired") == [1, 2]
    assert await planned(broker, "scheduled") == [3]


async def test_who_may_not_enqueue_to_its_stream_may_neither_put_nor_replace_nor_delete_it(
    open_broker: OpenBroker, clock: ManualClock
) -> None:
    broker = await open_broker(clock=clock)
    stranger = Principal("stranger", ("streams:other:enqueue",))
    await recurring(broker).put(HOST, "tick", EVERY_MINUTE)
    with pytest.raises(Forbidden):
        await recurring(broker).put(stranger, "tock", EVERY_MINUTE)
    content = '{"to":"other","type":"t","payload":1}'
    mine = msgspec.structs.replace(EVERY_MINUTE, contract="courier", stream="other", content=content)
    with pytest.raises(Forbidden):
        await recurring(broker).put(stranger, "tick", mine)
    with pytest.raises(Forbidden):
        await recurring(broker).delete(stranger, "tick")
    await recurring(broker).put(stranger, "tock", mine)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "it is empty"), ("17", "neither a digit nor a dot"), ("a b", "it must be of"), ("..", "it must be of"),
     ("a" * (RECURRING_NAME_BYTES_MAX + 1), "129 characters long")],
)  # fmt: skip
async def test_a_name_that_is_none_is_refused(
    open_broker: OpenBroker, clock: ManualClock, name: str, reason: str
) -> None:
    broker = await open_broker(clock=clock)
    with pytest.raises(InvalidRequest, match=reason):
        await recurring(broker).put(HOST, name, EVERY_MINUTE)
    await recurring(broker).put(HOST, "a" * RECURRING_NAME_BYTES_MAX, EVERY_MINUTE)


async def test_no_more_recur_than_may(
    open_broker: OpenBroker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurring_module, "RECURRING_MAX", 2)
    broker = await open_broker(clock=clock)
    for name in ("a", "b", "a"):
        await recurring(broker).put(HOST, name, EVERY_MINUTE)
    with pytest.raises(OverQuota, match="2 recurrences already"):
        await recurring(broker).put(HOST, "c", EVERY_MINUTE)


async def test_what_never_comes_is_refused(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    never = msgspec.structs.replace(EVERY_MINUTE, every_ms=None, cron="* * */20 * 1L")
    with pytest.raises(InvalidRequest, match="does not come in the next 50 years"):
        await recurring(broker).put(HOST, "never", never)


async def test_many_changes_at_once_leave_one_next_run(open_broker: OpenBroker, clock: ManualClock) -> None:
    broker = await open_broker(clock=clock)
    await asyncio.gather(*(recurring(broker).put(HOST, "tick", EVERY_MINUTE) for _ in range(20)))
    assert await planned(broker, "scheduled") == [1]

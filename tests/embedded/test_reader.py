"""Events come out: against credit, one by one or in batches, and back when they are not acked."""

import asyncio
import logging
from pathlib import Path

import pytest

from broker import Broker, Delivery
from broker.clock import ManualClock
from broker.errors import Draining, InvalidRequest, LeaseNotHeld, StorageFailed, UnknownStream
from broker.limits import CREDIT_MAX, LEASE_MS_MIN, NACK_DELAY_MS_MAX
from tests.conftest import OpenBroker
from tests.embedded.conftest import core_of, enqueue, ids
from tests.support.events import STREAM
from tests.support.writer import PATIENCE_SECONDS, eventually, stored


async def take(broker: Broker, count: int, pattern: str = STREAM) -> list[tuple[str, int]]:
    """Take and ack so many events; the id and the attempt of each."""
    taken = []
    async with broker.subscribe(pattern) as reader:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for _ in range(count):
                delivery = await anext(reader)
                await delivery.ack()
                taken.append((delivery.id, delivery.attempt))
    return taken


async def test_events_come_in_order_and_an_ack_is_the_end_of_each(broker: Broker) -> None:
    await enqueue(broker, "e-1", "e-2", "e-3")
    seen = []
    async with broker.subscribe(STREAM) as reader:
        async for delivery in reader:
            assert (delivery.stream, delivery.attempt, delivery.envelope["id"]) == (STREAM, 1, delivery.id)
            assert delivery.held
            await delivery.ack()
            assert delivery.settled
            assert not delivery.held
            seen.append(delivery.id)
            if len(seen) == 3:
                break
    assert seen == ["e-1", "e-2", "e-3"]
    figures = broker.stats(STREAM)
    assert (figures["depth"], figures["inflight"], figures["subscribers"]) == (0, 0, 0)
    assert figures["totals"]["ack"] == 3


async def test_a_pattern_reads_streams_that_come_into_being_later_too(broker: Broker) -> None:
    async with broker.subscribe("agents/*/inbox") as reader:
        await enqueue(broker, "e-1", to="agents/Ada/inbox")
        await enqueue(broker, "e-2", to="elsewhere")
        await enqueue(broker, "e-3", to="agents/Jen/inbox")
        assert [(await anext(reader)).stream for _ in range(2)] == ["agents/Ada/inbox", "agents/Jen/inbox"]


async def test_at_most_the_credit_is_out_for_a_reader_that_works_on_one_event_at_a_time(broker: Broker) -> None:
    await enqueue(broker, *ids(100))
    async with broker.subscribe(STREAM, credit=4) as reader:
        for _ in range(50):
            delivery = await anext(reader)
            assert 1 <= broker.stats(STREAM)["inflight"] <= 4
            await delivery.ack()
    async with broker.subscribe(STREAM, credit=1) as reader:
        for _ in range(50):
            delivery = await anext(reader)
            assert broker.stats(STREAM)["inflight"] == 1
            await delivery.ack()


async def test_a_reader_that_does_not_read_costs_its_credit_and_no_more(broker: Broker) -> None:
    await enqueue(broker, *ids(1_000))
    async with broker.subscribe(STREAM, credit=7):
        await enqueue(broker, "one-more")
        assert broker.stats(STREAM)["inflight"] == 7
    assert broker.stats(STREAM)["inflight"] == 0


async def test_leaving_gives_everything_back_and_what_was_not_read_is_no_attempt(broker: Broker) -> None:
    await enqueue(broker, "e-1", "e-2", "e-3")
    async with broker.subscribe(STREAM) as reader:
        assert (await anext(reader)).id == "e-1"
        assert broker.stats(STREAM)["inflight"] == 3
    assert await take(broker, 3) == [("e-1", 2), ("e-2", 1), ("e-3", 1)]


@pytest.mark.parametrize("ack", ["manual", "auto"])
async def test_an_exception_in_the_block_acks_nothing(broker: Broker, ack: str) -> None:
    await enqueue(broker, "e-1", "e-2")

    async def consume() -> None:
        async with broker.subscribe(STREAM, ack=ack) as reader:
            async for delivery in reader:
                if delivery.id == "e-2":
                    raise RuntimeError("the work failed")
                if ack == "manual":
                    await delivery.ack()

    with pytest.raises(RuntimeError, match="the work failed"):
        await consume()
    assert await take(broker, 1) == [("e-2", 2)]
    assert broker.stats(STREAM)["depth"] == 0


async def test_a_cancellation_in_the_block_acks_nothing(broker: Broker) -> None:
    await enqueue(broker, "e-1")
    working = asyncio.Event()

    async def consume() -> None:
        async with broker.subscribe(STREAM, ack="auto") as reader:
            async for _delivery in reader:
                working.set()
                await asyncio.Event().wait()

    consuming = asyncio.create_task(consume())
    await working.wait()
    consuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consuming
    assert await take(broker, 1) == [("e-1", 2)]


async def test_automatic_acks_come_when_the_next_one_is_asked_for_or_the_block_is_left(broker: Broker) -> None:
    await enqueue(broker, "e-1", "e-2", "e-3")
    async with broker.subscribe(STREAM, ack="auto", credit=1) as reader:
        await anext(reader)
        assert broker.stats(STREAM)["totals"]["ack"] == 0
        await anext(reader)
        assert broker.stats(STREAM)["totals"]["ack"] == 1
    assert broker.stats(STREAM)["totals"]["ack"] == 2
    assert await take(broker, 1) == [("e-3", 1)]


async def test_with_automatic_acks_an_answer_of_its_own_stands(broker: Broker) -> None:
    await enqueue(broker, "e-1", "e-2")
    async with broker.subscribe(STREAM, ack="auto") as reader:
        first = await anext(reader)
        await first.nack()
        second = await anext(reader)
        await second.ack()
        third = await anext(reader)
        assert (third.id, third.attempt) == ("e-1", 2)
    assert broker.stats(STREAM)["totals"] | {"ack": 2, "nack": 1} == broker.stats(STREAM)["totals"]


async def test_an_automatic_ack_that_comes_too_late_is_said_and_the_event_comes_again(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    await enqueue(broker, "e-1")
    async with broker.subscribe(STREAM, ack="auto") as reader:
        await anext(reader)
        clock.advance(30_000)
        broker._core.registry.expire()
        with caplog.at_level(logging.WARNING):
            again = await anext(reader)
    assert (again.id, again.attempt) == ("e-1", 2)
    assert "its ack came too late" in caplog.text


async def test_a_nack_brings_the_event_back_at_the_tail_or_after_its_delay(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    await enqueue(broker, "e-1", "e-2", "e-3")
    async with broker.subscribe(STREAM) as reader:
        await (await anext(reader)).nack()
        await (await anext(reader)).nack(delay=2.5)
        assert [(await anext(reader)).id for _ in range(2)] == ["e-3", "e-1"]
        clock.advance(2_499)
        broker._core.registry.expire()
        assert broker.stats(STREAM)["inflight"] == 2
        clock.advance(1)
        broker._core.registry.expire()
        delayed = await anext(reader)
    assert (delayed.id, delayed.attempt) == ("e-2", 2)


async def test_a_lease_ends_unless_it_is_extended(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker({"streams": {"defaultLeaseMs": 1_000}}, clock=clock)
    await enqueue(broker, "kept", "lost")
    async with broker.subscribe(STREAM) as reader:
        kept, lost = [await anext(reader) for _ in range(2)]
        await kept.extend(5)
        clock.advance(1_000)
        broker._core.registry.expire()
        assert (kept.held, lost.held) == (True, False)
        await kept.ack()
        for refused in (lost.ack(), lost.nack(), lost.extend(1)):
            with pytest.raises(LeaseNotHeld):
                await refused
        again = await anext(reader)
        assert (again.id, again.attempt) == ("lost", 2)
        with pytest.raises(LeaseNotHeld):
            await lost.ack()
        await again.ack()
        with pytest.raises(LeaseNotHeld):
            await again.ack()


async def test_what_lost_its_lease_before_it_was_read_is_not_handed_out(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    await enqueue(broker, *ids(4))
    async with broker.subscribe(STREAM, credit=2) as reader:
        clock.advance(30_000)
        broker._core.registry.expire()
        taken = [await anext(reader) for _ in range(4)]
    assert [(each.id, each.attempt) for each in taken] == [("e-2", 1), ("e-3", 1), ("e-0", 2), ("e-1", 2)]


@pytest.mark.parametrize("delay", [-0.001, NACK_DELAY_MS_MAX / 1000 + 0.001])
async def test_a_delay_out_of_bounds_is_refused_and_the_event_stays_held(broker: Broker, delay: float) -> None:
    await enqueue(broker, "e-1")
    async with broker.subscribe(STREAM) as reader:
        delivery = await anext(reader)
        with pytest.raises(InvalidRequest, match="delayMs must be from 0"):
            await delivery.nack(delay)
        with pytest.raises(InvalidRequest, match="leaseMs must be from"):
            await delivery.extend((LEASE_MS_MIN - 1) / 1000)
        await delivery.ack()


async def test_batches_hold_what_is_there_up_to_their_limit(broker: Broker) -> None:
    await enqueue(broker, *ids(25))
    sizes, seen = [], []
    async with broker.subscribe(STREAM, credit=100) as reader:
        async for batch in reader.batches(10):
            sizes.append(len(batch))
            seen += [delivery.id for delivery in batch]
            assert await reader.ack_many(batch) == []
            if len(seen) == 25:
                break
    assert sizes == [10, 10, 5]
    assert seen == ids(25)


async def test_acking_many_tells_which_were_lost(broker: Broker) -> None:
    await enqueue(broker, *ids(3))
    async with broker.subscribe(STREAM) as reader:
        batch = await reader.take(10)
        await batch[1].ack()
        assert await reader.ack_many(batch) == [batch[1]]
    assert broker.stats(STREAM)["totals"]["ack"] == 3


async def test_a_long_stream_is_read_to_its_end(tmp_path: Path) -> None:
    async with Broker.open(tmp_path, {"streams": {"maxDepth": 50}}) as broker:
        await enqueue(broker, *ids(500))
        seen: list[str] = []
        async with broker.subscribe(STREAM, credit=20, ack="auto") as reader:
            async for batch in reader.batches(7):
                seen += [delivery.id for delivery in batch]
                if len(seen) == 500:
                    break
        assert seen == ids(500)


async def test_two_readers_share_a_stream_and_no_event(broker: Broker) -> None:
    await enqueue(broker, *ids(10))
    async with broker.subscribe(STREAM, credit=1) as one, broker.subscribe(STREAM, credit=1) as other:
        taken: list[Delivery] = []
        for _ in range(5):
            taken += [await anext(one), await anext(other)]
            await taken[-1].ack()
            await taken[-2].ack()
    assert sorted(delivery.id for delivery in taken) == ids(10)


async def test_a_cancelled_wait_loses_nothing(broker: Broker) -> None:
    async with broker.subscribe(STREAM) as reader:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await anext(reader)
        await enqueue(broker, "e-1")
        assert (await anext(reader)).id == "e-1"


async def test_several_tasks_may_share_a_reader(broker: Broker) -> None:
    seen: list[str] = []

    async def work(reader: object) -> None:
        async for delivery in reader:
            await delivery.ack()
            seen.append(delivery.id)

    async with broker.subscribe(STREAM, credit=3) as reader:
        workers = [asyncio.create_task(work(reader)) for _ in range(4)]
        await enqueue(broker, *ids(50))
        await eventually(lambda: len(seen) == 50)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    assert sorted(seen) == sorted(ids(50))


async def test_when_the_broker_is_closed_its_readers_come_to_their_end(data_dir: Path | None) -> None:
    broker = await Broker.open(data_dir)
    started = asyncio.Event()

    async def consume() -> str:
        async with broker.subscribe(STREAM) as reader:
            started.set()
            async for _delivery in reader:
                pass
        return "ended"

    consuming = asyncio.create_task(consume())
    await started.wait()
    await asyncio.sleep(0)
    await broker.close()
    assert await consuming == "ended"
    with pytest.raises(Draining):
        broker.subscribe(STREAM)


async def test_a_reader_that_waits_is_told_when_the_journal_fails(tmp_path: Path) -> None:
    broker = await Broker.open(tmp_path)
    async with broker.subscribe(STREAM) as reader:
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        core_of(broker).journal.health.failed("the disk is gone")
        with pytest.raises(StorageFailed, match="the disk is gone"):
            await waiting
        with pytest.raises(StorageFailed, match="the disk is gone"):
            await anext(reader)
    assert broker.failure == "the disk is gone"
    with pytest.raises(StorageFailed):
        await broker.enqueue(STREAM, 1)
    with pytest.raises(StorageFailed, match="the disk is gone"):
        await broker.close()
    await broker.close()


async def test_what_was_acked_before_the_end_stays_acked_and_the_rest_comes_again(tmp_path: Path) -> None:
    async with Broker.open(tmp_path) as broker:
        await enqueue(broker, "e-1", "e-2")
        async with broker.subscribe(STREAM) as reader:
            await (await anext(reader)).ack()
            await anext(reader)
    async with Broker.open(tmp_path) as broker:
        assert await take(broker, 1) == [("e-2", 2)]
        states = await stored(core_of(broker), "process_state")
        assert states == ["processed", "processed"]


@pytest.mark.parametrize("credit", [0, -1, CREDIT_MAX + 1])
async def test_a_credit_out_of_bounds_is_refused(broker: Broker, credit: int) -> None:
    with pytest.raises(InvalidRequest, match=f"credit must be from 1 to {CREDIT_MAX}, not {credit}"):
        broker.subscribe(STREAM, credit=credit)


@pytest.mark.parametrize("credit", [1, CREDIT_MAX])
async def test_a_credit_at_its_bounds_is_taken(broker: Broker, credit: int) -> None:
    await enqueue(broker, "e-1", "e-2")
    async with broker.subscribe(STREAM, credit=credit):
        assert broker.stats(STREAM)["inflight"] == min(credit, 2)


async def test_what_makes_no_sense_is_refused_before_anything_happens(broker: Broker) -> None:
    with pytest.raises(InvalidRequest, match="stream: segment 2 mixes"):
        broker.subscribe("agents/J*")
    with pytest.raises(InvalidRequest, match='ack must be "manual" or "auto"'):
        broker.subscribe(STREAM, ack="never")
    reader = broker.subscribe(STREAM)
    with pytest.raises(RuntimeError, match="inside its block"):
        await anext(reader)
    async with reader:
        with pytest.raises(InvalidRequest, match="limit must be at least 1"):
            await reader.take(0)
    with pytest.raises(RuntimeError, match="for one block"):
        await reader.__aenter__()


async def test_a_stream_that_may_not_be_made_cannot_be_read(open_broker: OpenBroker) -> None:
    broker = await open_broker({"streams": {"autoCreate": False}})
    with pytest.raises(UnknownStream):
        async with broker.subscribe(STREAM):
            raise AssertionError
    await broker.close()

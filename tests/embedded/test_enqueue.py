"""Events go in: through the gate, and answered when they are kept."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from broker import Broker, Event, Receipt
from broker.errors import (
    CourierError,
    Draining,
    InvalidEnvelope,
    InvalidRequest,
    OverQuota,
    TooLarge,
    UnknownStream,
)
from broker.limits import COMMIT_BATCH_MAX, ENVELOPE_BYTES_MAX, JSON_DEPTH_MAX
from tests.conftest import OpenBroker
from tests.embedded.conftest import core_of, enqueue, ids
from tests.support.events import AWKWARD_PAYLOADS, STREAM, envelope, raw_envelope
from tests.support.refusals import sized_envelope
from tests.support.writer import eventually, held_writer, stored


async def test_what_is_enqueued_is_an_envelope_with_all_that_was_given(broker: Broker) -> None:
    receipt = await broker.enqueue(
        STREAM,
        {"title": "hello"},
        type="sprint.assign",
        id="e-91a",
        sender="architect",
        corr="c-42",
        tags=["sprint"],
        headers={"priority": "normal"},
        partition_key="room-7",
    )
    assert (receipt.id, receipt.duplicate, receipt.payload_conflict) == ("e-91a", False, False)
    async with broker.subscribe(STREAM) as reader:
        delivery = await anext(reader)
    assert delivery.seq == receipt.seq
    found = dict(delivery.envelope)
    assert datetime.fromisoformat(found.pop("ts")).tzinfo is not None
    assert found == {
        "id": "e-91a",
        "from": "architect",
        "to": STREAM,
        "type": "sprint.assign",
        "corr": "c-42",
        "tags": ["sprint"],
        "headers": {"priority": "normal"},
        "partitionKey": "room-7",
        "payload": {"title": "hello"},
    }


async def test_an_event_brings_the_fields_that_only_it_has(broker: Broker) -> None:
    event = Event(STREAM, [1], refs=["T1102"], schema="xeno@v1", version=3, ts=datetime(2025, 10, 18, 19, tzinfo=UTC))
    await broker.enqueue_many([event])
    async with broker.subscribe(STREAM) as reader:
        delivery = await anext(reader)
    assert delivery.envelope == {
        "id": event.id,
        "ts": "2025-10-18T19:00:00Z",
        "to": STREAM,
        "type": "message",
        "schema": "xeno@v1",
        "version": 3,
        "refs": ["T1102"],
        "payload": [1],
    }


async def test_without_an_id_every_event_is_one_of_its_own(broker: Broker) -> None:
    receipts = [await broker.enqueue(STREAM, 1) for _ in range(200)]
    assert len({receipt.id for receipt in receipts}) == 200
    assert [receipt.seq for receipt in receipts] == sorted({receipt.seq for receipt in receipts})


async def test_the_same_id_again_is_a_duplicate_with_the_sequence_of_the_first(broker: Broker) -> None:
    first = await broker.enqueue_envelope(STREAM, envelope("e-1"))
    assert await broker.enqueue_envelope(STREAM, envelope("e-1")) == Receipt("e-1", first.seq, duplicate=True)
    assert broker.stats(STREAM)["depth"] == 1


async def test_a_duplicate_with_other_bytes_is_a_conflict_and_changes_nothing(durable: Broker) -> None:
    first = await durable.enqueue_envelope(STREAM, envelope("e-1"))
    again = await durable.enqueue_envelope(STREAM, envelope("e-1", payload={"other": True}))
    assert again == Receipt("e-1", first.seq, duplicate=True, payload_conflict=True)
    assert len(await stored(core_of(durable))) == 1


@pytest.mark.parametrize("payload", AWKWARD_PAYLOADS)
async def test_an_envelope_that_comes_as_bytes_is_kept_byte_for_byte(broker: Broker, payload: bytes) -> None:
    raw = raw_envelope(payload=payload)
    await broker.enqueue_envelope(STREAM, raw)
    async with broker.subscribe(STREAM) as reader:
        assert (await anext(reader)).raw == raw


async def test_a_fragment_of_json_is_kept_as_it_is(broker: Broker) -> None:
    await broker.enqueue(STREAM, orjson.Fragment(b"123456789012345678901234567890"))
    async with broker.subscribe(STREAM) as reader:
        delivery = await anext(reader)
    assert delivery.raw.endswith(b'"payload":123456789012345678901234567890}')
    assert delivery.payload == 123456789012345678901234567890


@pytest.mark.parametrize(
    ("to", "given", "kind", "message"),
    [
        ("a b", envelope(to="a b"), InvalidRequest, "to: segment 1 has a character outside"),
        ("a/*", envelope(to="a/*"), InvalidRequest, "to: segment 2 has a character outside"),
        ("a/b", envelope(to="a/c"), InvalidEnvelope, "envelope.to is 'a/c', but to is 'a/b'"),
        (STREAM, envelope(""), InvalidEnvelope, "envelope.id: it is empty"),
        (STREAM, {}, InvalidEnvelope, "missing required field `id`"),
        (STREAM, envelope(payload=2**70), InvalidEnvelope, "cannot be written as JSON: Integer exceeds 64-bit range"),
        (STREAM, envelope(payload={1: 2}), InvalidEnvelope, "cannot be written as JSON: Dict key must be str"),
        (STREAM, envelope(payload=object()), InvalidEnvelope, "cannot be written as JSON: Type is not JSON"),
        (STREAM, b'{"id": "e-1"', InvalidEnvelope, "Input data was truncated"),
        (STREAM, raw_envelope() + b', "to": "b"', InvalidEnvelope, "trailing characters"),
        (STREAM, b'"\xff"', InvalidRequest, "not valid UTF-8 at byte 1"),
        (STREAM, sized_envelope(ENVELOPE_BYTES_MAX + 1), TooLarge, "at most 1048576 are accepted"),
    ],
)
async def test_what_cannot_pass_is_refused_with_its_typed_error(
    broker: Broker, to: str, given: Any, kind: type[CourierError], message: str
) -> None:
    with pytest.raises(kind) as refused:
        await broker.enqueue_envelope(to, given)
    assert type(refused.value) is kind
    assert message in refused.value.message
    assert broker.streams() == []


async def test_an_envelope_of_the_largest_size_passes(broker: Broker) -> None:
    assert (await broker.enqueue_envelope(STREAM, sized_envelope(ENVELOPE_BYTES_MAX))).duplicate is False


async def test_an_envelope_may_be_as_deep_as_it_may_be_over_http_and_no_deeper(broker: Broker) -> None:
    deepest = JSON_DEPTH_MAX - 2  # the envelope is one level, and the request around it another
    await broker.enqueue_envelope(STREAM, raw_envelope("e-1", b"[" * deepest + b"]" * deepest))
    with pytest.raises(InvalidRequest, match=f"nested deeper than {JSON_DEPTH_MAX - 1} levels"):
        await broker.enqueue_envelope(STREAM, raw_envelope("e-2", b"[" * (deepest + 1) + b"]" * (deepest + 1)))


async def test_a_stream_that_may_not_be_made_is_unknown(open_broker: OpenBroker) -> None:
    broker = await open_broker({"streams": {"autoCreate": False}})
    with pytest.raises(UnknownStream):
        await broker.enqueue(STREAM, 1)


async def test_the_rate_of_a_stream_holds_for_the_program_too(open_broker: OpenBroker) -> None:
    rate = {"perSecond": 0.001, "burst": 1}
    broker = await open_broker({"streams": {"perStreamCaps": {STREAM: {"rate": rate}}}})
    await broker.enqueue(STREAM, 1)
    with pytest.raises(OverQuota):
        await broker.enqueue(STREAM, 2)


async def test_many_events_are_answered_in_their_order(broker: Broker) -> None:
    first = await broker.enqueue("a/b", 0, id="known")
    receipts = await broker.enqueue_many(
        [Event("a/b", 1, id="one"), ("a/c", envelope("two", "a/c")), ("a/b", raw_envelope("known", to="a/b"))]
    )
    assert [(each.id, each.duplicate) for each in receipts] == [("one", False), ("two", False), ("known", True)]
    assert receipts[2].seq == first.seq
    assert broker.streams() == ["a/b", "a/c"]
    assert await broker.enqueue_many([]) == []


async def test_many_events_are_one_group_commit(durable: Broker) -> None:
    health = core_of(durable).journal.health
    before = health.commits
    await durable.enqueue_many([Event(STREAM, number) for number in range(500)])
    assert (health.commits - before, health.events) == (1, 500)


async def test_if_one_of_many_cannot_pass_none_is_taken_and_its_position_is_told(broker: Broker) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await broker.enqueue_many([Event(STREAM, 1), Event("not a name", 2), Event(STREAM, 3)])
    assert refused.value.detail == {"position": 1}
    with pytest.raises(InvalidEnvelope) as refused:
        await broker.enqueue_many([Event(STREAM, 1), Event(STREAM, object())])
    assert refused.value.detail == {"position": 1}
    assert broker.streams() == [] or broker.stats(STREAM)["depth"] == 0


async def test_as_many_events_as_a_commit_holds_are_taken_at_once_and_no_more(broker: Broker) -> None:
    await enqueue(broker, *ids(COMMIT_BATCH_MAX))
    with pytest.raises(TooLarge, match="more than 5000 events"):
        await enqueue(broker, *ids(COMMIT_BATCH_MAX + 1))
    assert broker.stats(STREAM)["depth"] == COMMIT_BATCH_MAX


async def test_a_full_stream_in_memory_refuses_and_to_send_all_again_is_harmless() -> None:
    async with Broker.open(None, {"streams": {"maxDepth": 2}}) as broker:
        events = [Event(STREAM, number) for number in range(4)]
        with pytest.raises(OverQuota) as refused:
            await broker.enqueue_many(events)
        assert refused.value.detail == {"stream": STREAM, "position": 2}
        with pytest.raises(OverQuota):
            await broker.enqueue(STREAM, 4)
        async with broker.subscribe(STREAM, ack="auto") as reader:
            assert [(await anext(reader)).payload for _ in range(2)] == [0, 1]
        receipts = await broker.enqueue_many(events)
        assert [receipt.duplicate for receipt in receipts] == [True, True, False, False]


async def test_enqueue_returns_when_the_event_is_on_disk_and_not_before(durable: Broker) -> None:
    async with held_writer(core_of(durable)) as release:
        enqueuing = asyncio.create_task(durable.enqueue(STREAM, 1, id="e-1"))
        await eventually(lambda: core_of(durable).journal.queued == 1)
        assert not enqueuing.done()
        release.set()
    assert (await enqueuing).id == "e-1"


async def test_a_full_ingest_queue_makes_the_producer_wait(tmp_path: Path) -> None:
    async with Broker.open(tmp_path, {"journal": {"queueMax": 1}}) as broker:
        async with held_writer(core_of(broker)) as release:
            enqueuing = [asyncio.create_task(broker.enqueue(STREAM, number)) for number in range(10)]
            await eventually(lambda: core_of(broker).journal.health.saturations == 9)
            assert core_of(broker).journal.queued == 1
            release.set()
        receipts = await asyncio.gather(*enqueuing)
        assert sorted(receipt.seq for receipt in receipts) == list(range(1, 11))


async def test_a_cancelled_enqueue_may_have_happened_and_harms_nobody(durable: Broker) -> None:
    async with held_writer(core_of(durable)) as release:
        enqueuing = asyncio.create_task(durable.enqueue(STREAM, 1, id="e-1"))
        await eventually(lambda: core_of(durable).journal.queued == 1)
        enqueuing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await enqueuing
        release.set()
    assert (await durable.enqueue(STREAM, 1, id="e-1")).duplicate is True


async def test_a_producer_that_is_cancelled_while_it_waits_for_room_has_enqueued_nothing(tmp_path: Path) -> None:
    async with Broker.open(tmp_path, {"journal": {"queueMax": 1}}) as broker:
        async with held_writer(core_of(broker)) as release:
            first = asyncio.create_task(broker.enqueue(STREAM, 1))
            second = asyncio.create_task(broker.enqueue(STREAM, 2, id="e-2"))
            await eventually(lambda: core_of(broker).journal.health.saturations == 1)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            release.set()
        await first
        assert (await broker.enqueue(STREAM, 2, id="e-2")).duplicate is False


async def test_closing_answers_what_was_enqueued_and_refuses_what_comes_after(tmp_path: Path) -> None:
    broker = await Broker.open(tmp_path)
    enqueuing = [asyncio.create_task(broker.enqueue(STREAM, number)) for number in range(20)]
    await asyncio.sleep(0)
    await broker.close()
    assert [receipt.seq for receipt in await asyncio.gather(*enqueuing)] == list(range(1, 21))
    for refused in (broker.enqueue(STREAM, 1), broker.enqueue_many([]), broker.enqueue_envelope(STREAM, envelope())):
        with pytest.raises(Draining, match="this broker is closed"):
            await refused
    async with Broker.open(tmp_path) as again:
        assert again.stats(STREAM)["depth"] == 20


async def test_closing_waits_for_a_producer_that_waits_for_room(tmp_path: Path) -> None:
    broker = await Broker.open(tmp_path, {"journal": {"queueMax": 1}})
    async with held_writer(core_of(broker)) as release:
        enqueuing = [asyncio.create_task(broker.enqueue(STREAM, number)) for number in range(5)]
        await eventually(lambda: core_of(broker).journal.health.saturations == 4)
        closing = asyncio.create_task(broker.close())
        await asyncio.sleep(0)
        release.set()
    await closing
    assert sorted(receipt.seq for receipt in await asyncio.gather(*enqueuing)) == [1, 2, 3, 4, 5]


async def test_a_producer_that_never_pauses_lets_its_consumer_run(memory: Broker) -> None:
    taken = 0

    async def consume() -> None:
        nonlocal taken
        async with memory.subscribe(STREAM, ack="auto") as reader:
            async for _delivery in reader:
                taken += 1

    consuming = asyncio.create_task(consume())
    for number in range(10_000):
        await memory.enqueue(STREAM, number)
    assert taken > 5_000
    consuming.cancel()
    await asyncio.gather(consuming, return_exceptions=True)

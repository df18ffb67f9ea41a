"""Many events in a call: enqueued, taken and acknowledged together, with what becomes of each as if it were alone."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from broker import Broker, Event, Receipt
from broker.clock import ManualClock
from broker.errors import CourierError, Draining, InvalidEnvelope, OverQuota, TooLarge
from broker.limits import COMMIT_BATCH_MAX
from broker.streams.entry import MEMORY_SEQ_FIRST as FIRST
from tests.conftest import OpenBroker
from tests.embedded.conftest import ids, read
from tests.support.events import STREAM, envelope, raw_envelope
from tests.support.writer import PATIENCE_SECONDS

OTHER = "agents/Ada/inbox"


def plain(*event_ids: str, to: str = STREAM) -> list[tuple[str, bytes]]:
    """Envelopes that are written plainly."""
    return [(to, raw_envelope(event_id, to=to)) for event_id in event_ids]


async def taken_ids(broker: Broker, count: int, pattern: str = STREAM) -> list[str]:
    """The ids of so many events, each acked."""
    found: list[str] = []
    async with broker.subscribe(pattern, credit=1_000) as reader, asyncio.timeout(PATIENCE_SECONDS):
        while len(found) < count:
            taken = await reader.take(7)
            assert await reader.ack_many(taken) == []
            found += [delivery.id for delivery in taken]
    return found


async def test_plain_envelopes_are_kept_byte_for_byte_and_answered_in_order(broker: Broker) -> None:
    spaced = b" " + raw_envelope("spaced") + b"\n"
    receipts = await broker.enqueue_many([*plain(*ids(50)), (STREAM, spaced), *plain("other", to=OTHER)])
    assert all(type(receipt) is Receipt for receipt in receipts)
    assert [receipt.id for receipt in receipts] == [*ids(50), "spaced", "other"]
    assert [receipt.seq - receipts[0].seq for receipt in receipts] == list(range(52))
    assert not any(receipt.duplicate or receipt.payload_conflict for receipt in receipts)
    async with broker.subscribe(STREAM, credit=100) as reader:
        taken = await reader.take(100)
    assert [delivery.raw for delivery in taken] == [raw for _, raw in plain(*ids(50))] + [spaced]
    assert [delivery.seq for delivery in taken] == [receipt.seq for receipt in receipts[:51]]


async def test_plain_envelopes_others_and_events_may_be_mixed(broker: Broker) -> None:
    given: list[Any] = [
        *plain("a"),
        (STREAM, envelope("b")),
        Event(STREAM, 1, id="c"),
        [STREAM, raw_envelope("d")],
        (STREAM, raw_envelope("é")),
        *plain("f"),
    ]
    receipts = await broker.enqueue_many(given)
    assert [receipt.id for receipt in receipts] == ["a", "b", "c", "d", "é", "f"]
    assert await taken_ids(broker, 6) == ["a", "b", "c", "d", "é", "f"]


@pytest.mark.parametrize("wrong", [(STREAM, b"{}"), (STREAM, raw_envelope("x", to=OTHER)), (OTHER, {"id": "x"})])
async def test_one_that_is_refused_says_where_it_is_and_nothing_behind_it_has_left_a_trace(
    broker: Broker, wrong: Any
) -> None:
    with pytest.raises(InvalidEnvelope) as refused:
        await broker.enqueue_many([*plain(*ids(3)), wrong, *plain("e", to="never/made")])
    assert refused.value.detail["position"] == 3
    assert broker.streams() == [STREAM]
    assert broker.stats(STREAM)["depth"] == 0


async def test_a_stream_that_may_not_be_made_says_where_it_was_asked_for(open_broker: OpenBroker) -> None:
    broker = await open_broker({"streams": {"autoCreate": False, "perStreamCaps": {STREAM: {}}}})
    with pytest.raises(CourierError, match="autoCreate is off") as refused:
        await broker.enqueue_many([*plain(*ids(3)), *plain("e", "f", to=OTHER)])
    assert refused.value.detail["position"] == 3
    assert len(await broker.enqueue_many(plain(*ids(3)))) == 3


@pytest.mark.parametrize("make", [list, tuple, iter])
async def test_more_than_a_commit_holds_are_refused_and_as_many_as_it_holds_are_taken(
    broker: Broker, make: Any
) -> None:
    too_many = plain(*ids(COMMIT_BATCH_MAX + 1))
    with pytest.raises(TooLarge, match=f"more than {COMMIT_BATCH_MAX} events"):
        await broker.enqueue_many(make(too_many))
    assert len(await broker.enqueue_many(make(too_many[1:]))) == COMMIT_BATCH_MAX


async def test_an_endless_iterable_is_not_read_to_its_end(broker: Broker) -> None:
    def endless() -> Iterator[tuple[str, bytes]]:
        while True:
            yield STREAM, raw_envelope("e")

    with pytest.raises(TooLarge):
        await broker.enqueue_many(endless())


async def test_none_are_no_events(broker: Broker) -> None:
    assert await broker.enqueue_many([]) == []
    assert broker.streams() == []


async def test_a_duplicate_among_plain_envelopes_is_told_with_the_place_of_its_original(broker: Broker) -> None:
    (original,) = await broker.enqueue_many(plain("e-1"))
    receipts = await broker.enqueue_many(plain(*ids(3)))
    assert [receipt.duplicate for receipt in receipts] == [False, True, False]
    assert receipts[1] == Receipt("e-1", original.seq, duplicate=True)
    twice = await broker.enqueue_many(plain("x", "x"))
    assert (twice[0].duplicate, twice[1].duplicate, twice[0].seq) == (False, True, twice[1].seq)
    assert broker.stats(STREAM)["depth"] == 4


async def test_a_closed_broker_takes_no_plain_envelope() -> None:
    broker = await Broker.open(None)
    await broker.close()
    with pytest.raises(Draining):
        await broker.enqueue_many(plain("e"))


async def test_a_rate_counts_plain_envelopes_too(open_broker: OpenBroker) -> None:
    caps = {STREAM: {"rate": {"perSecond": 1, "burst": 3}}}
    broker = await open_broker({"streams": {"perStreamCaps": caps}})
    with pytest.raises(OverQuota) as refused:
        await broker.enqueue_many(plain(*ids(10)))
    assert refused.value.detail["position"] == 3


async def test_events_of_a_full_stream_in_memory_are_refused_from_the_first_that_has_no_room() -> None:
    async with Broker.open(None, {"streams": {"maxDepth": 5}}) as broker:
        with pytest.raises(OverQuota, match="is full") as refused:
            await broker.enqueue_many(plain(*ids(8)))
        assert refused.value.detail["position"] == 5
        assert await taken_ids(broker, 5) == ids(5)


async def test_who_looks_at_streams_in_memory_is_shown_each_of_many() -> None:
    async with Broker.open(None) as broker:
        with broker._core.tails.follow("**") as queue:
            await broker.enqueue_many([*plain("a", "b"), *plain("c", to=OTHER), *plain("d", to="elsewhere")])
            frames = await queue.take()
        shown = [STREAM, STREAM, OTHER, "elsewhere"]
        places = [frames.index(b'{"stream":"%b","seq":%d' % (to.encode(), seq)) for seq, to in enumerate(shown, FIRST)]
        assert places == sorted(places)
        await broker.enqueue_many(plain("e", "f"))
        view = broker._core.views.by_name["latestPerAgent"]
        assert view.snapshot()[1] == {OTHER: raw_envelope("c", to=OTHER), STREAM: raw_envelope("f")}


async def test_a_producer_of_many_lets_others_run_between_its_calls() -> None:
    async with Broker.open(None) as broker:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        for call in range(20):
            await broker.enqueue_many(plain(*(f"e-{call}-{number}" for number in range(1_000))))
        counting.cancel()
        assert turns >= 20


# Acknowledgements.


async def test_what_lost_its_lease_is_told_and_the_others_are_acked(open_broker: OpenBroker) -> None:
    clock = ManualClock()
    broker = await open_broker(clock=clock)
    await broker.enqueue_many(plain(*ids(6)))
    async with broker.subscribe(STREAM, credit=100) as reader:
        taken = await reader.take(6)
        for kept in taken[::2]:
            await kept.extend(60)
        clock.advance(30_000)
        broker._core.registry.expire()
        assert await reader.ack_many(taken) == taken[1::2]
        assert [(each.settled, each.held) for each in taken[:2]] == [(True, False), (False, False)]
        again = await reader.take(6)
        assert [(each.id, each.attempt) for each in again] == [("e-1", 2), ("e-3", 2), ("e-5", 2)]
        assert await reader.ack_many(taken) == taken
        assert await reader.ack_many(iter(again)) == []
    figures = broker.stats(STREAM)
    assert (figures["depth"], figures["inflight"], figures["totals"]["ack"]) == (0, 0, 6)


async def test_one_that_is_named_twice_is_lost_the_second_time(broker: Broker) -> None:
    await broker.enqueue_many(plain("e"))
    async with broker.subscribe(STREAM) as reader:
        (delivery,) = await reader.take(1)
        assert await reader.ack_many([delivery, delivery]) == [delivery]
        assert await reader.ack_many([]) == []


async def test_a_reader_acks_what_another_one_was_handed(broker: Broker) -> None:
    await broker.enqueue_many(plain(*ids(4)))
    async with broker.subscribe(STREAM, credit=2) as one, broker.subscribe(STREAM, credit=2) as other:
        mixed = [*await one.take(2), *await other.take(2)]
        await mixed[1].nack()
        assert await broker.subscribe(STREAM).ack_many(mixed[:1]) == []
        assert await one.ack_many(mixed) == mixed[:2]
    assert broker.stats(STREAM)["totals"]["ack"] == 3


async def test_those_of_a_pattern_are_acked_on_their_own_streams(broker: Broker) -> None:
    for to in (STREAM, OTHER, STREAM):
        await broker.enqueue_many(plain(f"{to}-{broker.streams()}", to=to))
    async with broker.subscribe("agents/*/inbox", credit=10) as reader:
        taken = [*await reader.take(10)]
        assert len(taken) == 3
        assert await reader.ack_many(taken) == []
    assert [broker.stats(to)["totals"]["ack"] for to in (STREAM, OTHER)] == [2, 1]
    assert [broker.stats(to)["depth"] for to in (STREAM, OTHER)] == [0, 0]


async def test_the_next_event_of_each_partition_follows_when_many_are_acked(broker: Broker) -> None:
    keyed = [(STREAM, envelope(f"{key}{number}", partitionKey=key)) for number in range(3) for key in "ab"]
    await broker.enqueue_many(keyed)
    async with broker.subscribe(STREAM, credit=10) as reader:
        for number in range(3):
            taken = await reader.take(10)
            assert [delivery.id for delivery in taken] == [f"a{number}", f"b{number}"]
            assert await reader.ack_many(taken) == []


async def test_the_next_event_of_each_partition_follows_an_array_of_acks_through_a_pipe(broker: Broker) -> None:
    await broker.enqueue_many(
        [(STREAM, envelope(f"{key}{number}", partitionKey=key)) for number in range(3) for key in "ab"]
    )
    async with broker.pipe(STREAM, window=10) as pipe:
        for number in range(3):
            messages = await read(pipe, 2)
            assert [message["deliver"]["id"] for message in messages] == [f"a{number}", f"b{number}"]
            await pipe.send({"ack": [message["seq"] for message in messages]})


async def test_an_array_of_plain_events_through_a_pipe_is_answered_in_order(broker: Broker) -> None:
    async with broker.pipe() as pipe:
        requests = [b'{"to":"%b","envelope":%b}' % (STREAM.encode(), raw) for _, raw in plain("a", "b", "a")]
        await pipe.send(b'{"enqueue":[%b]}' % b",".join(requests))
        answers = [message["enqueued"] for message in await read(pipe, 3)]
        await pipe.send(b'{"enqueue":[%b,{"to":"%b","envelope":{}}]}' % (requests[0], STREAM.encode()))
        mixed = await read(pipe, 2)
    assert [(answer["id"], answer["duplicate"]) for answer in answers] == [("a", False), ("b", False), ("a", True)]
    assert sorted(key for message in mixed for key in message) == ["enqueued", "error"]
    assert next(message["error"] for message in mixed if "error" in message)["position"] == 1


async def test_an_ack_by_id_elsewhere_is_known_to_who_acks_many(broker: Broker) -> None:
    await broker.enqueue_many(plain(*ids(3)))
    async with broker.subscribe(STREAM) as reader:
        taken = await reader.take(3)
        place = taken[0]._place
        broker._core.registry.ack(place, "e-1")
        assert await reader.ack_many(taken) == [taken[1]]
        with pytest.raises(CourierError, match="not held"):
            broker._core.registry.ack(place, "e-0")


async def test_a_delivery_shows_what_it_is(broker: Broker) -> None:
    (receipt,) = await broker.enqueue_many(plain("e"))
    async with broker.subscribe(STREAM) as reader:
        (delivery,) = await reader.take(1)
        assert repr(delivery) == f"<Delivery 'e' of {STREAM}, seq {receipt.seq}, attempt 1>"
        assert delivery.envelope is delivery.envelope
        with pytest.raises(AttributeError):
            delivery.other = 1

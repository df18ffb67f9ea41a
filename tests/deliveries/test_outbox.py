"""What waits for one reader: order, frames, the bound of a write, and what was never sent."""

import asyncio
import json
from typing import Any

from broker.clock import ManualClock
from broker.deliveries.framing import text_frame_head
from broker.deliveries.outbox import DeliveryQueue
from broker.limits import WRITE_BYTES_MAX
from broker.streams.entry import Entry
from broker.streams.registry import Registry
from broker.streams.rules import StreamRules
from broker.streams.stream import Stream
from tests.support.streams import FakeLedger, Inbox


def texts(chunk: bytes) -> list[Any]:
    """The texts of the frames of a chunk."""
    found = []
    while chunk:
        length, head = chunk[1], 2
        if length == 126:
            length, head = int.from_bytes(chunk[2:4]), 4
        elif length == 127:
            length, head = int.from_bytes(chunk[2:10]), 10
        assert chunk.startswith(text_frame_head(length))
        found.append(json.loads(chunk[head : head + length]))
        chunk = chunk[head + length :]
    return found


def entry(number: int, size: int = 10) -> Entry:
    return Entry(
        Stream("s", StreamRules(10, 1000, 3, False), FakeLedger()),
        number,
        f"e-{number}",
        b'"%b"' % (b"x" * (size - 2)),
        0,
        None,
        1,
    )


def filled(*sizes: int, batch: int | None = None) -> DeliveryQueue:
    queue = DeliveryQueue(batch)
    for number, size in enumerate(sizes, start=1):
        queue.deliver([entry(number, size)])
    return queue


def seqs(entries: set[Entry]) -> list[int]:
    return sorted(each.seq for each in entries)


async def test_everything_that_waits_is_taken_at_once_and_in_order(registry: Registry, ledger: FakeLedger) -> None:
    queue = DeliveryQueue()
    registry.grant(registry.subscribe("s", queue), 10)
    registry.committed(ledger.write_all("s", "a", "b"))
    queue.answer(b'{"error":{}}')
    registry.committed(ledger.write_all("s", "c"))
    assert texts(queue.take_now()) == [
        {"deliver": {"id": "a"}, "attempt": 1, "seq": 1},
        {"deliver": {"id": "b"}, "attempt": 1, "seq": 2},
        {"error": {}},
        {"deliver": {"id": "c"}, "attempt": 1, "seq": 3},
    ]


async def test_who_sends_is_told_of_everything_that_comes_and_finds_nothing_when_nothing_waits() -> None:
    queue, told = DeliveryQueue(), []
    queue.deliver([entry(1)])
    queue.on_ready(lambda: told.append(len(texts(queue.take_now()))))
    for come in (lambda: queue.deliver([entry(2)]), lambda: queue.answer(b"{}")):
        come()
    assert told == [2, 1]
    assert queue.take_now() == b""


async def test_a_delivery_that_waited_too_long_keeps_the_attempt_it_was(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    slow, other = DeliveryQueue(), Inbox()
    registry.grant(registry.subscribe("s", slow), 1)
    registry.committed(ledger.write_all("s", "a"))
    registry.grant(registry.subscribe("s", other), 1)
    clock.advance(1000)
    registry.expire()
    assert other.deliveries == [("a", 2)]
    assert slow.unsent(0) == set()
    assert [each["attempt"] for each in texts(slow.take_now())] == [1]


async def test_a_delivery_that_never_left_does_not_count_also_when_an_older_one_of_its_event_leaves_late(
    registry: Registry, ledger: FakeLedger, clock: ManualClock
) -> None:
    first, second = DeliveryQueue(), DeliveryQueue()
    registry.grant(registry.subscribe("s", first), 1)
    registry.committed(ledger.write_all("s", "a"))
    subscription = registry.subscribe("s", second)
    registry.grant(subscription, 1)
    clock.advance(1000)
    registry.expire()
    first.take_now()
    clock.advance(1000)
    registry.grant(registry.subscribe("s", Inbox()), 1)
    (waiting,) = subscription.entries.values()
    registry.expire()
    assert (waiting.attempt, waiting.failures) == (3, 1)


async def test_a_batch_is_one_frame_and_answers_keep_their_place() -> None:
    queue = filled(10, 10, 10, batch=2)
    queue.answer(b"{}")
    queue.deliver([entry(4)])
    frames = texts(queue.take_now())
    assert [[each["seq"] for each in frame.get("deliver", [])] for frame in frames] == [[1, 2], [3], [], [4]]
    assert frames[1] == {"deliver": [{"envelope": "x" * 8, "attempt": 1, "seq": 3}]}


async def test_one_write_ends_with_the_frame_that_reaches_its_bound() -> None:
    half = WRITE_BYTES_MAX // 2
    for batch in (None, 1, 1000):
        queue = filled(half, half, half, batch=batch)
        chunks = [queue.take_now(), queue.take_now()]
        assert WRITE_BYTES_MAX <= len(chunks[0]) < WRITE_BYTES_MAX + 500
        assert len(chunks[1]) < WRITE_BYTES_MAX


async def test_what_waits_and_what_is_taken_and_did_not_leave_whole_is_unsent() -> None:
    queue = filled(10, 10, 10)
    one = len(queue.take_now()) // 3
    queue.deliver([entry(4)])
    assert seqs(queue.unsent(0)) == [4]
    assert seqs(queue.unsent(1)) == [3, 4]
    assert seqs(queue.unsent(one)) == [3, 4]
    assert seqs(queue.unsent(one + 1)) == [2, 3, 4]
    assert seqs(queue.unsent(3 * one)) == [1, 2, 3, 4]
    queue.take_now()
    assert seqs(queue.unsent(0)) == []


async def test_no_delivery_of_a_batch_is_sent_before_its_frame_is_whole() -> None:
    queue = filled(10, 10, batch=2)
    queue.take_now()
    assert seqs(queue.unsent(1)) == [1, 2]


async def test_who_provokes_answers_waits_until_they_are_taken_or_nobody_sends() -> None:
    queue = DeliveryQueue()
    await queue.answered()
    for release in (queue.take_now, queue.end):
        queue.answer(b"{}")
        waiting = asyncio.create_task(queue.answered())
        await asyncio.sleep(0)
        assert not waiting.done()
        release()
        await waiting

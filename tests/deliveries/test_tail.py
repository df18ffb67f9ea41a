"""What waits for one follower, and what it is told when that is too much."""

import json
from typing import Any

import pytest

from broker.contracts.inbound import InboundEvent
from broker.deliveries import tail
from broker.deliveries.tail import TailQueue, Tails
from broker.errors import OverQuota
from broker.limits import FOLLOWERS_MAX
from broker.streams.entry import MEMORY_SEQ_FIRST


def event(stream: str = "s", envelope: bytes = b"{}") -> InboundEvent:
    return InboundEvent("courier", stream, "t", f"stream:{stream}", "e", 1, envelope, b"", None, None, None)


async def frames(queue: TailQueue) -> list[Any]:
    """The frames of one write. All of them are short."""
    data, found = await queue.take(), []
    while data:
        assert data[0] == 0x81
        assert data[1] <= 125
        found.append(json.loads(data[2 : 2 + data[1]]))
        data = data[2 + data[1] :]
    return found


def shown(seq: int) -> dict[str, Any]:
    return {"stream": "s", "seq": seq, "envelope": {}}


async def test_a_follower_gets_the_events_of_its_pattern_in_order() -> None:
    tails = Tails()
    with tails.follow("a/*") as queue:
        tails.show([(1, event("a/b")), (2, event("b")), (3, event("a/c")), (4, event("a/b/c"))])
        assert [(frame["seq"], frame["stream"]) for frame in await frames(queue)] == [(1, "a/b"), (3, "a/c")]


async def test_what_finds_no_room_is_counted_where_it_would_have_been(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TAIL_WAITING_MAX", 3)
    queue = TailQueue("s")
    for seq in range(1, 4):
        queue.offer(seq, event())
    assert await frames(queue) == [shown(1), shown(2), shown(3)]
    for seq in range(4, 10):
        queue.offer(seq, event())
    assert await frames(queue) == [shown(4), shown(5), shown(6), {"missed": 3}]
    queue.offer(10, event())
    assert await frames(queue) == [shown(10)]


async def test_the_bytes_that_wait_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TAIL_WAITING_BYTES_MAX", 8)
    queue = TailQueue("s")
    queue.offer(1, event(envelope=b'"abcd"'))
    queue.offer(2, event(envelope=b"{}"))
    queue.offer(3, event(envelope=b"1"))
    queue.offer(4, event(envelope=b"1"))
    queue.offer(5, event(envelope=b"{}"))
    assert [frame.get("seq", frame) for frame in await frames(queue)] == [1, 2, {"missed": 3}]


async def test_after_the_last_page_nothing_is_shown_twice_and_nothing_is_left_out() -> None:
    queue = TailQueue("s")
    queue.offer(1, event())
    queue.before_page()
    queue.offer(2, event())
    queue.offer(3, event())
    assert queue.after_last_page(2)
    queue.offer(2, event())
    queue.offer(4, event())
    assert await frames(queue) == [shown(3), shown(4)]


async def test_more_than_is_kept_while_a_page_is_read_asks_for_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TAIL_WAITING_MAX", 2)
    queue = TailQueue("s")
    queue.before_page()
    for seq in range(1, 4):
        queue.offer(seq, event())
    assert not queue.after_last_page(0)
    queue.before_page()
    assert queue.after_last_page(3)
    queue.offer(4, event())
    assert await frames(queue) == [shown(4)]


async def test_events_in_memory_are_in_no_page_and_are_kept_or_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TAIL_WAITING_MAX", 1)
    queue, first = TailQueue("s"), MEMORY_SEQ_FIRST
    queue.before_page()
    queue.offer(first, event())
    queue.before_page()
    queue.offer(first + 1, event())
    assert queue.after_last_page(7)
    assert await frames(queue) == [shown(first), {"missed": 1}]


async def test_what_the_next_page_will_have_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TAIL_WAITING_MAX", 1)
    queue = TailQueue("s")
    queue.offer(1, event())
    queue.before_page()
    queue.offer(MEMORY_SEQ_FIRST, event())
    assert queue.after_last_page(1)
    assert await frames(queue) == [shown(MEMORY_SEQ_FIRST)]


async def test_there_are_only_so_many_followers() -> None:
    tails = Tails()
    opened = [tails.follow("s") for _ in range(FOLLOWERS_MAX)]
    for each in opened:
        each.__enter__()
    with pytest.raises(OverQuota), tails.follow("s"):
        pass
    opened.pop().__exit__(None, None, None)
    with tails.follow("s"):
        pass

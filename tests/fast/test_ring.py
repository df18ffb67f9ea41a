"""Ring: first in, first out, and a place kept for whoever took an item."""

import pytest

import _fast
from tests.fast.outcome import raised

CAPACITY_MAX = 2**31 - 1


class Incomparable:
    """An item that can be neither compared, hashed nor asked for its truth."""

    __hash__ = None

    def __eq__(self, other):
        raise AssertionError("an item was compared")

    def __bool__(self):
        raise AssertionError("an item was asked for its truth")


def state(ring):
    return len(ring), ring.held, ring.capacity, ring.allocated


def pushed(Ring, capacity, items):
    ring = Ring(capacity)
    for item in items:
        assert ring.push(item) is True
    return ring


def drained(ring):
    return [ring.pop() for _ in range(len(ring))]


@pytest.mark.parametrize("capacity", [1, 2, 1000, CAPACITY_MAX - 1, CAPACITY_MAX])
def test_a_capacity_within_the_bounds_is_kept_and_nothing_is_allocated_for_it(Ring, capacity):
    ring = Ring(capacity)
    assert state(ring) == (0, 0, capacity, 0)


@pytest.mark.parametrize("capacity", [0, -1, CAPACITY_MAX + 1, 2**32 + 1, -(2**31)])
def test_a_capacity_out_of_bounds_is_refused(Ring, capacity):
    assert raised(Ring, capacity) is ValueError


def test_the_capacity_can_be_named(Ring):
    assert Ring(capacity=3).capacity == 3


def test_a_subscripted_ring_makes_the_same_rings(Ring):
    ring = Ring[int](2)
    assert isinstance(ring, Ring)
    assert ring.push(1) is True


def test_items_come_out_in_the_order_in_which_they_went_in(Ring):
    ring = pushed(Ring, 5, "abcde")
    assert drained(ring) == list("abcde")


def test_an_empty_ring_pops_none_and_holds_no_place_for_it(Ring):
    ring = Ring(2)
    assert ring.pop() is None
    assert state(ring) == (0, 0, 2, 0)
    ring.push("a")
    ring.pop()
    assert ring.pop() is None
    assert (len(ring), ring.held) == (0, 1)


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 8, 9, 63, 64, 65, 100])
def test_a_push_past_the_capacity_is_refused_and_changes_nothing(Ring, capacity):
    ring = Ring(capacity)
    for item in range(capacity):
        assert len(ring) == item
        assert ring.push(item) is True
    before = state(ring)
    assert ring.push("one too many") is False
    assert ring.push("one too many") is False
    assert state(ring) == before
    assert drained(ring) == list(range(capacity))


def test_a_held_item_keeps_its_place_from_a_push(Ring):
    ring = pushed(Ring, 2, "ab")
    assert ring.pop() == "a"
    assert (len(ring), ring.held) == (1, 1)
    assert ring.push("c") is False
    assert (len(ring), ring.held) == (1, 1)
    ring.release()
    assert ring.held == 0
    assert ring.push("c") is True
    assert drained(ring) == ["b", "c"]


def test_a_ring_whose_items_are_all_held_takes_nothing_more(Ring):
    ring = pushed(Ring, 3, "abc")
    drained(ring)
    assert (len(ring), ring.held) == (0, 3)
    assert ring.push("d") is False
    ring.release()
    assert ring.push("d") is True
    assert ring.push("e") is False
    assert drained(ring) == ["d"]


def test_none_is_refused_as_an_item_and_changes_nothing(Ring):
    ring = pushed(Ring, 3, "ab")
    ring.pop()
    before = state(ring)
    for call in (ring.push, ring.requeue, ring.restore):
        assert raised(call, None) is TypeError
        assert state(ring) == before
    assert drained(ring) == ["b"]


def test_none_is_refused_by_a_full_ring_as_well(Ring):
    ring = pushed(Ring, 1, "a")
    assert raised(ring.push, None) is TypeError
    assert drained(ring) == ["a"]


@pytest.mark.parametrize("item", [0, "", False, b"", (), [], 0.0, {}])
def test_an_item_that_is_false_is_an_item(Ring, item):
    ring = pushed(Ring, 2, [item])
    assert ring.pop() is item
    ring.requeue(item)
    assert ring.pop() is item
    ring.restore(item)
    assert ring.pop() is item


def test_items_are_never_compared_hashed_or_asked_for_their_truth(Ring):
    items = [Incomparable() for _ in range(20)]
    ring = pushed(Ring, 20, items)
    first = ring.pop()
    ring.requeue(first)
    second = ring.pop()
    ring.restore(second)
    ring.compact()
    assert [id(item) for item in drained(ring)] == [id(item) for item in [*items[1:], items[0]]]


def test_the_same_item_may_wait_twice(Ring):
    item = object()
    ring = pushed(Ring, 2, [item, item])
    assert ring.pop() is item
    assert ring.pop() is item


@pytest.mark.parametrize(("capacity", "waiting"), [(1, 0), (1, 1), (3, 2), (8, 8), (9, 8), (9, 9), (100, 0), (100, 64)])
def test_nothing_can_be_given_up_or_put_back_when_nothing_is_held(Ring, capacity, waiting):
    ring = pushed(Ring, capacity, range(waiting))
    before = state(ring)
    assert raised(ring.release) is ValueError
    assert raised(ring.requeue, "x") is ValueError
    assert raised(ring.restore, "x") is ValueError
    assert state(ring) == before
    assert drained(ring) == list(range(waiting))


def test_each_held_item_can_be_given_up_or_put_back_exactly_once(Ring):
    ring = pushed(Ring, 3, "abc")
    _, b, c = drained(ring)
    ring.release()
    ring.requeue(b)
    ring.restore(c)
    assert ring.held == 0
    assert raised(ring.release) is ValueError
    assert drained(ring) == [c, b]


def test_requeue_puts_back_at_the_tail(Ring):
    ring = pushed(Ring, 3, "abc")
    ring.requeue(ring.pop())
    assert (len(ring), ring.held) == (3, 0)
    assert drained(ring) == ["b", "c", "a"]


def test_restore_puts_back_at_the_head(Ring):
    ring = pushed(Ring, 3, "abc")
    ring.pop()
    ring.restore("a")
    assert (len(ring), ring.held) == (3, 0)
    assert drained(ring) == ["a", "b", "c"]


def test_restoring_in_reverse_gives_the_old_order_back(Ring):
    ring = pushed(Ring, 50, range(50))
    taken = [ring.pop() for _ in range(30)]
    for item in reversed(taken):
        ring.restore(item)
    assert drained(ring) == list(range(50))


def test_what_is_put_back_need_not_be_what_was_popped(Ring):
    ring = pushed(Ring, 2, "ab")
    ring.pop()
    ring.restore("another")
    assert drained(ring) == ["another", "b"]


@pytest.mark.parametrize("put_back", ["requeue", "restore"])
@pytest.mark.parametrize("compact_first", [False, True])
@pytest.mark.parametrize("capacity", [1, 2, 8, 9, 33, 100])
def test_putting_back_never_fails_for_want_of_room(Ring, capacity, compact_first, put_back):
    ring = pushed(Ring, capacity, range(capacity))
    taken = drained(ring)
    if compact_first:
        ring.compact()
    for item in taken:
        getattr(ring, put_back)(item)
    assert (len(ring), ring.held) == (capacity, 0)
    assert ring.push("one too many") is False
    assert drained(ring) == (taken if put_back == "requeue" else taken[::-1])


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 8, 13])
def test_the_order_survives_any_number_of_turns_around_the_storage(Ring, capacity):
    ring = Ring(capacity)
    for offset in range(3 * capacity):
        for number in range(capacity):
            assert ring.push((offset, number)) is True
        for number in range(capacity):
            assert ring.pop() == (offset, number)
            ring.release()
        ring.push(offset)
        assert ring.pop() == offset
        ring.release()


@pytest.mark.parametrize("offset", range(9))
def test_growth_keeps_the_order_wherever_the_head_stands(Ring, offset):
    ring = Ring(1000)
    for number in range(offset):
        ring.push(number)
    for _ in range(offset):
        ring.pop()
        ring.release()
    for number in range(200):
        ring.push(number)
    assert drained(ring) == list(range(200))


@pytest.mark.parametrize("waiting", [0, 1, 7, 8, 9, 31, 32, 33, 100])
def test_compact_keeps_the_waiting_and_the_held(Ring, waiting):
    ring = pushed(Ring, 300, range(300))
    for _ in range(300 - waiting):
        ring.pop()
    before = (len(ring), ring.held, ring.capacity)
    ring.compact()
    assert (len(ring), ring.held, ring.capacity) == before
    assert ring.push("x") is False
    ring.release()
    assert ring.push("x") is True
    assert drained(ring) == [*range(300 - waiting, 300), "x"]


@pytest.mark.parametrize("capacity", [1, 2, 7, 8, 9, 100, 1000, 1024])
def test_storage_starts_at_nothing_and_doubles_up_to_the_capacity(capacity):
    ring = _fast.Ring(capacity)
    sizes = [ring.allocated]
    for number in range(capacity):
        ring.push(number)
        assert len(ring) <= ring.allocated <= capacity
        if ring.allocated != sizes[-1]:
            assert sizes[-1] == number, "it grew before it was full"
            sizes.append(ring.allocated)
    assert sizes[0] == 0
    assert sizes[-1] == capacity
    assert sizes[2:] == [min(2 * size, capacity) for size in sizes[1:-1]]
    assert sizes[1] <= 16


def test_storage_is_not_touched_by_a_push_or_a_pop_that_needs_no_more():
    ring = _fast.Ring(1000)
    for number in range(100):
        ring.push(number)
    allocated, size = ring.allocated, ring.__sizeof__()
    for number in range(1000):
        ring.push(number)
        ring.pop()
        ring.release()
    drained(ring)
    assert (ring.allocated, ring.__sizeof__()) == (allocated, size)


def test_compact_gives_back_what_the_waiting_items_do_not_need():
    ring = _fast.Ring(100_000)
    idle = ring.__sizeof__()
    for number in range(100_000):
        ring.push(number)
    full = ring.__sizeof__()
    for waiting in (50_000, 1000, 100, 10, 1):
        while len(ring) > waiting:
            ring.pop()
        ring.compact()
        assert waiting <= ring.allocated < max(2 * waiting, 16)
        assert ring.__sizeof__() < full
    assert ring.pop() == 99_999
    ring.compact()
    assert ring.allocated == 0
    assert ring.__sizeof__() == idle


def test_compact_never_allocates():
    ring = _fast.Ring(8)
    ring.compact()
    assert ring.allocated == 0
    for number in range(8):
        ring.push(number)
        before = ring.allocated
        ring.compact()
        assert len(ring) <= ring.allocated <= before


def test_the_size_follows_the_storage():
    ring = _fast.Ring(1 << 20)
    idle = ring.__sizeof__()
    for number in range(10_000):
        ring.push(number)
    storage = 8 * ring.allocated
    assert storage <= ring.__sizeof__() - idle <= storage + 64

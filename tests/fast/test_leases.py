"""Leases: who holds what under which attempt, and what is due when, in which order."""

import pytest

from tests.fast.outcome import raised
from tests.fast.test_ring import Incomparable

ATTEMPT_MAX = 2**31 - 1
HORIZON_MS = 2**48
KEYS = [0, 1, 2, 63, 64, 2**31, 2**32, 2**32 + 1, 2**62, 2**63 - 1, -1, -2, -(2**31), -(2**63)]
POWERS = [2**bit for bit in range(48)]
# Around every boundary at which a wheel with slots in any power of two turns a digit.
SPANS = sorted({span + step for span in POWERS for step in (-1, 0, 1) if 1 <= span + step < HORIZON_MS})


def granted(Leases, deadlines, capacity=1000, now_ms=0):
    """Leases with the deadlines given, under the keys 0, 1, 2 ... and attempt 1; each item is its key as text."""
    leases = Leases(capacity, now_ms)
    for key, deadline_ms in enumerate(deadlines):
        assert leases.grant(key, 1, deadline_ms, str(key)) is True
    return leases


def keys(due):
    return [key for key, _, _ in due]


@pytest.mark.parametrize("capacity", [1, 2, 1000, 2**20, 2**30 - 1, 2**30])
def test_a_capacity_within_the_bounds_is_kept(Leases, capacity):
    leases = Leases(capacity)
    assert (leases.capacity, leases.now_ms, len(leases)) == (capacity, 0, 0)
    assert leases.next_deadline_ms() == -1
    assert leases.expire(0) == []


@pytest.mark.parametrize("capacity", [0, -1, 2**30 + 1, 2**31, 2**32 + 1])
def test_a_capacity_out_of_bounds_is_refused(Leases, capacity):
    assert raised(Leases, capacity) is ValueError


@pytest.mark.parametrize("now_ms", [0, 1, 2**31, HORIZON_MS - 1])
def test_the_clock_starts_where_it_is_told(Leases, now_ms):
    assert Leases(capacity=1, now_ms=now_ms).now_ms == now_ms


@pytest.mark.parametrize("now_ms", [-1, -(2**63), HORIZON_MS, HORIZON_MS + 1])
def test_a_start_before_zero_or_past_the_horizon_is_refused(Leases, now_ms):
    assert raised(Leases, 1, now_ms) is ValueError


def test_a_subscripted_class_makes_the_same_leases(Leases):
    assert isinstance(Leases[str](2), Leases)


def test_a_lease_is_out_until_its_holder_releases_it(Leases):
    leases = Leases(2)
    item = object()
    assert leases.grant(7, 3, 100, item) is True
    assert (len(leases), leases.attempt_of(7), leases.attempt_of(8)) == (1, 3, 0)
    assert leases.release(7, 3) is item
    assert (len(leases), leases.attempt_of(7)) == (0, 0)
    assert leases.release(7, 3) is None
    assert leases.expire(1000) == []


@pytest.mark.parametrize("capacity", [1, 2, 3, 63, 64, 65, 200])
def test_a_grant_past_the_capacity_is_refused_and_changes_nothing(Leases, capacity):
    leases = granted(Leases, [50] * capacity, capacity)
    assert len(leases) == capacity
    for _ in range(2):
        assert leases.grant(-1, 1, 10, "x") is False
    assert (len(leases), leases.attempt_of(-1), leases.now_ms) == (capacity, 0, 0)
    assert leases.release(0, 1) == "0"
    assert leases.grant(-1, 1, 10, "x") is True
    assert leases.grant(-2, 1, 10, "y") is False
    assert keys(leases.expire(50)) == [-1, *range(1, capacity)]
    assert leases.grant(-2, 1, 10, "y") is True


def test_a_key_that_is_leased_is_refused_and_keeps_its_lease(Leases):
    leases = Leases(3)
    leases.grant(7, 3, 100, "first")
    for attempt in (2, 3, 4):
        assert raised(leases.grant, 7, attempt, 50, "second") is ValueError
    assert (len(leases), leases.attempt_of(7)) == (1, 3)
    assert leases.expire(99) == []
    assert leases.expire(100) == [(7, 3, "first")]


def test_a_key_may_be_leased_again_once_it_is_back(Leases):
    leases = Leases(1)
    for attempt in range(1, 50):
        assert leases.grant(7, attempt, 100 + attempt, attempt) is True
        assert leases.release(7, attempt) == attempt
        assert leases.grant(7, attempt, 100 + attempt, attempt) is True
        assert leases.expire(100 + attempt) == [(7, attempt, attempt)]


@pytest.mark.parametrize("attempt", [1, 2, ATTEMPT_MAX - 1, ATTEMPT_MAX])
def test_an_attempt_within_the_bounds_fences(Leases, attempt):
    leases = Leases(1)
    leases.grant(7, attempt, 100, "a")
    assert leases.attempt_of(7) == attempt
    assert leases.release(7, attempt) == "a"


@pytest.mark.parametrize("attempt", [0, -1, ATTEMPT_MAX + 1, 2**32 + 1])
def test_an_attempt_out_of_bounds_is_refused_and_changes_nothing(Leases, attempt):
    leases = Leases(1)
    assert raised(leases.grant, 7, attempt, 100, "a") is ValueError
    assert (len(leases), leases.attempt_of(7), leases.next_deadline_ms()) == (0, 0, -1)


# 2**32 + 3 is 3 once somebody has cut it to the width of a field.
@pytest.mark.parametrize("attempt", [0, 1, 2, 4, -1, -3, 2**31 + 3, 2**32 + 3])
def test_another_attempt_than_the_holders_can_neither_release_nor_extend(Leases, attempt):
    leases = Leases(1)
    leases.grant(7, 3, 100, "a")
    assert leases.release(7, attempt) is None
    assert leases.extend(7, attempt, 500) is False
    assert (len(leases), leases.attempt_of(7)) == (1, 3)
    assert leases.expire(100) == [(7, 3, "a")]


@pytest.mark.parametrize("key", KEYS)
def test_any_64_bit_number_is_a_key(Leases, key):
    leases = Leases(len(KEYS) + 1)
    for number, other in enumerate(KEYS):
        leases.grant(other, number + 1, 100 + number, number)
    position = KEYS.index(key)
    assert raised(leases.grant, key, 1, 100, "x") is ValueError
    assert leases.extend(key, position + 1, 100) is True
    assert leases.release(key, position + 1) == position
    assert leases.attempt_of(key) == 0
    assert keys(leases.expire(1000)) == [other for other in KEYS if other != key]


@pytest.mark.parametrize("key", [8, 7 + 2**32, -7])
def test_a_key_that_is_not_leased_has_no_attempt_and_cannot_be_released_or_extended(Leases, key):
    leases = granted(Leases, [100] * 8)
    assert leases.attempt_of(key) == 0
    assert leases.release(key, 1) is None
    assert leases.extend(key, 1, 500) is False
    assert len(leases) == 8


def test_none_is_refused_as_an_item_and_changes_nothing(Leases):
    leases = Leases(1)
    assert raised(leases.grant, 7, 1, 100, None) is TypeError
    assert (len(leases), leases.attempt_of(7)) == (0, 0)


@pytest.mark.parametrize("item", [0, "", False, b"", (), [], {}])
def test_an_item_that_is_false_is_an_item(Leases, item):
    leases = Leases(2)
    leases.grant(1, 1, 100, item)
    leases.grant(2, 1, 100, item)
    assert leases.release(1, 1) is item
    assert leases.expire(100)[0][2] is item


def test_items_are_never_compared_hashed_or_asked_for_their_truth(Leases):
    leases = Leases(3)
    items = [Incomparable() for _ in range(3)]
    for key, item in enumerate(items):
        leases.grant(key, 1, 100, item)
    leases.extend(0, 1, 100)
    assert id(leases.release(1, 1)) == id(items[1])
    assert [id(item) for _, _, item in leases.expire(100)] == [id(items[2]), id(items[0])]


@pytest.mark.parametrize("deadline_ms", [-1, -(2**63), HORIZON_MS, HORIZON_MS + 1])
def test_a_deadline_before_zero_or_past_the_horizon_is_refused_and_changes_nothing(Leases, deadline_ms):
    leases = granted(Leases, [100])
    assert raised(leases.grant, 1, 1, deadline_ms, "x") is ValueError
    assert raised(leases.extend, 0, 1, deadline_ms) is ValueError
    assert (len(leases), leases.attempt_of(1)) == (1, 0)
    assert leases.expire(99) == []
    assert keys(leases.expire(100)) == [0]


@pytest.mark.parametrize("now_ms", [0, 1, 63, 64, 2**47 + 12345, HORIZON_MS - 2, HORIZON_MS - 1])
def test_the_first_and_the_last_deadline_are_allowed_at_any_time(Leases, now_ms):
    leases = granted(Leases, [HORIZON_MS - 1, 0], now_ms=now_ms)
    last = now_ms == HORIZON_MS - 1
    assert keys(leases.expire(now_ms)) == ([0, 1] if last else [1])
    assert keys(leases.expire(HORIZON_MS - 1)) == ([] if last else [0])


@pytest.mark.parametrize("span", SPANS)
def test_a_lease_is_due_at_its_deadline_and_not_a_millisecond_earlier(Leases, span):
    for now_ms in (0, 1, 63, 64, 1_000_003, 2**40 - 1):
        deadline_ms = now_ms + span
        if deadline_ms < HORIZON_MS:
            leases = granted(Leases, [deadline_ms], now_ms=now_ms)
            assert leases.expire(deadline_ms - 1) == []
            assert leases.now_ms == deadline_ms - 1
            assert leases.expire(deadline_ms) == [(0, 1, "0")]
            assert (leases.now_ms, len(leases), leases.attempt_of(0)) == (deadline_ms, 0, 0)


def test_the_earliest_deadline_comes_first_whatever_the_order_of_the_grants(Leases):
    deadlines = SPANS[1::2] + SPANS[::-2]
    leases = granted(Leases, deadlines)
    expected = sorted(range(len(deadlines)), key=lambda key: deadlines[key])
    assert keys(leases.expire(HORIZON_MS - 1)) == expected


@pytest.mark.parametrize("deadline_ms", [0, 1, 63, 64, 65, 4095, 4096, 5000, 2**24, 2**47])
def test_equal_deadlines_come_in_the_order_of_the_grants(Leases, deadline_ms):
    leases = granted(Leases, [deadline_ms] * 20)
    assert keys(leases.expire(deadline_ms)) == list(range(20))


@pytest.mark.parametrize("deadline_ms", [100, 4096, 5000, 2**18 + 7, 2**24, 2**36 + 2**12])
def test_equal_deadlines_keep_that_order_whenever_they_were_granted(Leases, deadline_ms):
    """The later a lease is granted, the lower in a wheel it starts; the first must still be the first."""
    leases = Leases(1000)
    moments = sorted({deadline_ms - span for span in SPANS if span <= deadline_ms} | {deadline_ms})
    for key, moment in enumerate(moments):
        assert leases.expire(moment - 1 if moment else 0) == []
        leases.grant(key, 1, deadline_ms, key)
    assert keys(leases.expire(deadline_ms)) == list(range(len(moments)))


def test_an_extension_moves_the_deadline_either_way(Leases):
    leases = granted(Leases, [100, 200, 300])
    assert leases.extend(0, 1, 5000) is True
    assert leases.extend(2, 1, 50) is True
    assert keys(leases.expire(4999)) == [2, 1]
    assert keys(leases.expire(5000)) == [0]


def test_an_extension_to_the_same_deadline_goes_behind_its_equals(Leases):
    leases = granted(Leases, [100, 100, 100])
    assert leases.extend(0, 1, 100) is True
    assert keys(leases.expire(100)) == [1, 2, 0]


def test_a_deadline_in_the_past_is_due_at_once_and_counts_as_the_present(Leases):
    leases = granted(Leases, [1000, 1000, 2000, 10, 0, 999], now_ms=1000)
    leases.extend(2, 1, 1)
    assert leases.expire(1000) == [(key, 1, str(key)) for key in (0, 1, 3, 4, 5, 2)]
    assert leases.now_ms == 1000


@pytest.mark.parametrize("now_ms", [1001, 999, 1, 0, -1, -(2**63)])
def test_a_clock_that_goes_backwards_stands_still(Leases, now_ms):
    leases = granted(Leases, [1001, 1002], now_ms=1001)
    assert keys(leases.expire(now_ms)) == [0]
    assert leases.now_ms == 1001
    assert leases.expire(now_ms) == []
    assert leases.now_ms == 1001
    assert keys(leases.expire(1002)) == [1]


@pytest.mark.parametrize("now_ms", [HORIZON_MS, HORIZON_MS + 1, 2**62])
def test_a_time_past_the_horizon_is_refused_and_changes_nothing(Leases, now_ms):
    leases = granted(Leases, [1, HORIZON_MS - 1])
    assert raised(leases.expire, now_ms) is ValueError
    assert (leases.now_ms, len(leases)) == (0, 2)
    assert keys(leases.expire(HORIZON_MS - 1)) == [0, 1]


@pytest.mark.parametrize("limit", [0, -1, -(2**63)])
def test_a_limit_below_one_is_refused_and_changes_nothing(Leases, limit):
    leases = granted(Leases, [1])
    assert raised(leases.expire, 5, limit) is ValueError
    assert (leases.now_ms, len(leases)) == (0, 1)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7, 2**31, 2**62, 2**63 - 1])
def test_at_most_limit_leases_are_returned_and_the_rest_come_later_in_order(Leases, limit):
    leases = granted(Leases, [10, 20, 20, 30, 70, 5000])
    returned = []
    while due := leases.expire(6000, limit):
        assert len(due) <= limit
        returned += keys(due)
    assert returned == [0, 1, 2, 3, 4, 5]
    assert leases.now_ms == 6000


def test_when_the_limit_is_reached_the_clock_stays_at_the_last_deadline(Leases):
    leases = granted(Leases, [10, 20, 20, 5000])
    for limit, expected, now_ms in ((1, [0], 10), (1, [1], 20), (1, [2], 20), (1, [3], 5000), (1, [], 6000)):
        assert keys(leases.expire(6000, limit)) == expected
        assert leases.now_ms == now_ms
    leases.grant(9, 1, 6500, "last")
    assert keys(leases.expire(7000, limit=2)) == [9]
    assert leases.now_ms == 7000, "the limit was not reached"


def test_a_limit_reached_by_deadlines_in_the_past_leaves_the_clock_where_it_was(Leases):
    leases = granted(Leases, [5, 6], now_ms=1000)
    assert keys(leases.expire(2000, 2)) == [0, 1]
    assert leases.now_ms == 1000


def test_a_grant_between_two_limited_calls_takes_its_place_in_the_order(Leases):
    leases = granted(Leases, [10, 20, 40])
    assert keys(leases.expire(100, 1)) == [0]
    for key, deadline_ms in ((3, 5), (4, 30), (5, 40)):
        leases.grant(key, 1, deadline_ms, "x")
    assert keys(leases.expire(100)) == [3, 1, 4, 2, 5]


@pytest.mark.parametrize("now_ms", [0, 1, 63, 64, 4095, 2**30 + 12345])
@pytest.mark.parametrize("span", SPANS[::5])
def test_the_next_deadline_is_never_late_and_leads_to_the_lease_in_a_few_steps(Leases, now_ms, span):
    deadline_ms = now_ms + span
    leases = granted(Leases, [deadline_ms], now_ms=now_ms)
    for _ in range(64):
        upcoming_ms = leases.next_deadline_ms()
        assert leases.now_ms <= upcoming_ms <= deadline_ms
        if leases.expire(upcoming_ms):
            break
    assert (leases.now_ms, leases.next_deadline_ms()) == (deadline_ms, -1)


def test_the_next_deadline_follows_releases_and_extensions(Leases):
    leases = granted(Leases, [10, 20, 30])
    assert leases.next_deadline_ms() <= 10
    leases.release(0, 1)
    leases.extend(2, 1, 5)
    assert leases.next_deadline_ms() <= 5
    leases.release(2, 1)
    leases.release(1, 1)
    assert leases.next_deadline_ms() == -1


def test_many_leases_in_any_order_expire_in_order(Leases):
    leases = Leases(10_000)
    deadlines = {key: (key * 7919) % 100_003 for key in range(10_000)}
    for key, deadline_ms in deadlines.items():
        leases.grant(key, 1 + key % 5, deadline_ms, key)
    for key in range(0, 10_000, 3):
        assert leases.release(key, 1 + key % 5) == key
        del deadlines[key]
    assert len(leases) == len(deadlines)
    returned = [key for now_ms in range(0, 101_000, 997) for key in keys(leases.expire(now_ms))]
    assert returned == sorted(deadlines, key=lambda key: deadlines[key])

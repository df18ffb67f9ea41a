"""The calls that take a whole batch: what a row of single calls does, and how far it goes when it cannot go on."""

import pytest

import _fast
from tests.fast.outcome import outcome, raised

KEY_MAX = 2**63 - 1
ATTEMPT_MAX = 2**31 - 1


def names(count, start=0):
    return [b"identity %d" % number for number in range(start, start + count)]


# Ring.


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 99, 100])
def test_a_pushed_batch_waits_in_its_order_behind_what_waited(Ring, count):
    ring = Ring(101)
    ring.push("first")
    assert ring.push_many(list(range(count))) == count
    assert len(ring) == count + 1
    assert ring.pop_many(200) == ["first", *range(count)]


@pytest.mark.parametrize(("room", "count"), [(4, 5), (5, 5), (6, 5), (0, 5), (1, 1), (0, 0)])
def test_a_batch_that_does_not_fit_is_taken_from_its_start_as_far_as_there_is_room(Ring, room, count):
    ring = Ring(10)
    ring.push_many(["held"] * 3 + ["waits"] * (7 - room))
    ring.pop_many(3)
    accepted = min(room, count)
    assert ring.push_many(list(range(count))) == accepted
    assert (len(ring), ring.held) == (7 - room + accepted, 3)
    assert ring.pop_many(10)[7 - room :] == list(range(accepted))


def test_a_batch_with_none_in_it_is_refused_as_a_whole(Ring):
    ring = Ring(10)
    ring.push("a")
    for batch in ([None], ["b", None], [None, "b"], ["b"] * 20 + [None]):
        assert raised(ring.push_many, batch) is TypeError
        assert (len(ring), ring.held) == (1, 0)
    assert ring.pop() == "a"


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 6, 2**40])
def test_a_popped_batch_is_held_and_has_no_more_than_waits(Ring, limit):
    ring = Ring(5)
    ring.push_many(list("abcde"))
    taken = min(limit, 5)
    assert ring.pop_many(limit) == list("abcde")[:taken]
    assert (len(ring), ring.held) == (5 - taken, taken)
    assert ring.push("no room for the places that are held") is False


def test_batches_go_around_the_end_of_the_storage(Ring):
    ring, expected = Ring(8), 0
    ring.push_many(list(range(5)))
    for pushed in range(5, 200, 3):
        assert ring.push_many([pushed, pushed + 1, pushed + 2]) == 3
        assert ring.pop_many(3) == [expected, expected + 1, expected + 2]
        ring.release(3)
        expected += 3


def test_a_batch_grows_the_storage_once_and_no_further_than_the_bound():
    ring = _fast.Ring(1000)
    ring.push_many(list(range(300)))
    assert 300 <= ring.allocated <= 600
    ring.push_many(list(range(5000)))
    assert (len(ring), ring.allocated) == (1000, 1000)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_as_many_places_are_given_up_as_are_held(Ring, count):
    ring = Ring(3)
    ring.push_many(["a", "b", "c"])
    ring.pop_many(3)
    ring.release(count)
    assert ring.held == 3 - count
    assert ring.push_many([1, 2, 3]) == count


@pytest.mark.parametrize("count", [-1, 3, 2**40])
def test_places_that_are_not_held_are_not_given_up(Ring, count):
    ring = Ring(3)
    ring.push_many(["a", "b", "c"])
    ring.pop_many(2)
    assert raised(ring.release, count) is ValueError
    assert ring.held == 2


# Dedupe.


def test_a_claimed_batch_answers_like_claims_in_a_row(Dedupe):
    dedupe = Dedupe(10)
    dedupe.remember(b"old", 7)
    dedupe.claim(b"flying", 3)
    assert dedupe.claim_many([b"new", b"old", b"flying", b"new", b"newer"], 4) == [0, 7, -3, -4, 0]
    assert (len(dedupe), dedupe.in_flight) == (4, 3)


def test_a_batch_without_identities_claims_nothing(Dedupe):
    dedupe = Dedupe(1)
    assert dedupe.claim_many([], 1) == []
    assert dedupe.commit_batch(1, 1) == dedupe.abort_batch(1) == 0


@pytest.mark.parametrize(("room", "count"), [(3, 4), (4, 4), (5, 4), (0, 4)])
def test_claims_end_before_the_first_identity_that_finds_no_room(Dedupe, room, count):
    dedupe = Dedupe(10)
    dedupe.claim_many(names(10 - room, 100), 1)
    claimed = min(room, count)
    assert dedupe.claim_many(names(count), 2) == [0] * claimed
    assert dedupe.in_flight == 10 - room + claimed
    assert [dedupe.find(name) for name in names(count)] == [-2] * claimed + [0] * (count - claimed)


def test_a_known_identity_behind_one_without_room_is_not_reached(Dedupe):
    dedupe = Dedupe(1)
    dedupe.claim(b"a", 1)
    assert dedupe.claim_many([b"a", b"b", b"a"], 2) == [-1]


def test_a_batch_is_committed_in_the_order_of_its_claims(Dedupe):
    dedupe = Dedupe(10)
    dedupe.claim_many([b"a", b"b"], 1)
    dedupe.claim(b"other", 2)
    dedupe.claim_many([b"c", b"a"], 1)
    assert dedupe.commit_batch(1, 50) == 3
    assert [dedupe.find(name) for name in (b"a", b"b", b"c", b"other")] == [50, 51, 52, -2]
    assert dedupe.in_flight == 1


def test_what_was_committed_or_aborted_before_its_batch_takes_no_sequence(Dedupe):
    dedupe = Dedupe(10)
    dedupe.claim_many(names(5), 1)
    dedupe.commit(names(5)[1], 9)
    dedupe.abort(names(5)[3])
    assert dedupe.commit_batch(1, 50) == 3
    assert [dedupe.find(name) for name in names(5)] == [50, 9, 51, 0, 52]


def test_the_last_claim_of_a_committed_batch_is_the_most_recently_used(Dedupe):
    dedupe = Dedupe(4)
    dedupe.remember(b"older", 1)
    dedupe.claim_many(names(3), 1)
    dedupe.commit_batch(1, 10)
    for gone in (b"older", *names(3)):
        assert dedupe.find(gone) > 0
        dedupe.claim(b"in place of " + gone, 2)
        assert dedupe.find(gone) == 0


def test_an_aborted_batch_is_forgotten_and_the_others_are_not(Dedupe):
    dedupe = Dedupe(10)
    dedupe.claim_many(names(3), 1)
    dedupe.claim_many(names(3, 3), 2)
    dedupe.commit_batch(2, 20)
    dedupe.claim_many(names(3, 6), 3)
    assert dedupe.abort_batch(1) == 3
    assert dedupe.abort_batch(2) == 0, "it is committed"
    assert [dedupe.find(name) for name in names(9)] == [0, 0, 0, 20, 21, 22, -3, -3, -3]
    assert (len(dedupe), dedupe.in_flight) == (6, 3)


@pytest.mark.parametrize("number", [0, -1])
def test_a_batch_or_a_sequence_below_one_is_refused(Dedupe, number):
    dedupe = Dedupe(4)
    dedupe.claim(b"a", 1)
    assert raised(dedupe.claim_many, [b"b"], number) is ValueError
    assert raised(dedupe.commit_batch, number, 1) is ValueError
    assert raised(dedupe.commit_batch, 1, number) is ValueError
    assert raised(dedupe.abort_batch, number) is ValueError
    assert (len(dedupe), dedupe.find(b"a")) == (1, -1)


@pytest.mark.parametrize(("first_seq", "fits"), [(KEY_MAX - 3, True), (KEY_MAX - 2, True), (KEY_MAX - 1, False)])
def test_the_last_sequence_of_a_batch_has_64_bits(Dedupe, first_seq, fits):
    dedupe = Dedupe(4)
    dedupe.claim_many(names(3), 1)
    assert outcome(dedupe.commit_batch, 1, first_seq) == (("returned", 3) if fits else ("raised", OverflowError))
    assert [dedupe.find(name) for name in names(3)] == ([first_seq + step for step in range(3)] if fits else [-1] * 3)


@pytest.mark.parametrize("stranger", [None, "text", 1, bytearray(b"x")])
def test_a_batch_with_a_stranger_among_its_identities_claims_nothing(stranger):
    dedupe = _fast.Dedupe(4)
    assert raised(dedupe.claim_many, [b"a", stranger], 1) is TypeError
    assert len(dedupe) == 0


# Leases.


def test_a_batch_is_leased_under_consecutive_keys_each_with_its_attempt(Leases):
    leases = Leases(200)
    assert leases.grant_many(40, [1, 3, ATTEMPT_MAX], 100, ["a", "b", "c"]) == 3
    assert [leases.attempt_of(key) for key in range(39, 44)] == [0, 1, 3, ATTEMPT_MAX, 0]
    assert leases.expire(100) == [(40, 1, "a"), (41, 3, "b"), (42, ATTEMPT_MAX, "c")]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 300])
def test_a_batch_of_any_size_grows_the_storage_around_what_was_released(Leases, count):
    leases = Leases(1000)
    leases.grant_many(0, [1] * 100, 50, list(range(100)))
    leases.release_many(list(range(0, 100, 2)), [1] * 50)
    assert leases.grant_many(1000, [2] * count, 60, list(range(count))) == count
    assert leases.expire(50) == [(key, 1, key) for key in range(1, 100, 2)]
    assert leases.release_many(list(range(1000, 1000 + count)), [2] * count) == list(range(count))
    assert len(leases) == 0


@pytest.mark.parametrize(("room", "count"), [(3, 4), (4, 4), (5, 4), (0, 4), (0, 0)])
def test_a_batch_that_finds_too_few_leases_is_leased_from_its_start(Leases, room, count):
    leases = Leases(100)
    leases.grant_many(0, [1] * (100 - room), 10, ["x"] * (100 - room))
    leased = min(room, count)
    assert leases.grant_many(1000, [1] * count, 20, list(range(count))) == leased
    assert len(leases) == 100 - room + leased
    assert [leases.attempt_of(1000 + step) for step in range(count)] == [1] * leased + [0] * (count - leased)


def test_a_batch_with_a_key_that_is_leased_is_refused_as_a_whole_also_at_capacity(Leases):
    leases = Leases(4)
    leases.grant(12, 1, 100, "held")
    for first_key in (10, 11, 12):
        assert raised(leases.grant_many, first_key, [1] * 3, 100, ["a", "b", "c"]) is ValueError
    assert raised(leases.grant_many, 8, [1] * 5, 100, list("abcde")) is ValueError
    assert len(leases) == 1
    assert leases.grant_many(9, [1] * 3, 100, ["a", "b", "c"]) == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((10, [1, 0], 100, ["a", "b"]), ValueError),
        ((10, [1, ATTEMPT_MAX + 1], 100, ["a", "b"]), ValueError),
        ((10, [1], 100, ["a", "b"]), ValueError),
        ((10, [1, 1, 1], 100, ["a", "b"]), ValueError),
        ((10, [1, 1], -1, ["a", "b"]), ValueError),
        ((10, [1, 1], 2**48, ["a", "b"]), ValueError),
        ((10, [1, 1], 100, ["a", None]), TypeError),
        ((KEY_MAX, [1, 1], 100, ["a", "b"]), OverflowError),
    ],
)
def test_a_batch_that_is_refused_leases_nothing(Leases, arguments, error):
    leases = Leases(4)
    assert raised(leases.grant_many, *arguments) is error
    assert (len(leases), leases.next_deadline_ms()) == (0, -1)


def test_the_last_key_of_a_batch_may_be_the_highest(Leases):
    leases = Leases(4)
    assert leases.grant_many(KEY_MAX - 1, [1, 1], 100, ["a", "b"]) == 2
    assert leases.release(KEY_MAX, 1) == "b"


def test_a_released_batch_answers_for_each_key_in_its_place(Leases):
    leases = Leases(10)
    leases.grant_many(1, [1, 2, 1], 100, ["a", "b", "c"])
    assert leases.release_many([3, 9, 2, 3, 2, 1], [1, 1, 1, 1, 2, 1]) == ["c", None, None, None, "b", "a"]
    assert leases.release_many([], []) == []
    assert (len(leases), leases.next_deadline_ms()) == (0, -1)


def test_as_many_attempts_as_keys_are_asked_for(Leases):
    leases = Leases(10)
    leases.grant_many(1, [1, 1], 100, ["a", "b"])
    for keys, attempts in (([1], []), ([], [1]), ([1, 2], [1]), ([1], [1, 1])):
        assert raised(leases.release_many, keys, attempts) is ValueError
    assert len(leases) == 2


@pytest.mark.parametrize("stranger", [None, "1", 1.0, object()])
def test_a_batch_with_a_number_that_is_none_changes_nothing(stranger):
    leases = _fast.Leases(10)
    leases.grant_many(1, [1, 1], 100, ["a", "b"])
    assert raised(leases.release_many, [1, stranger], [1, 1]) is TypeError
    assert raised(leases.release_many, [1, 2], [1, stranger]) is TypeError
    assert raised(leases.grant_many, 5, [1, stranger], 100, ["c", "d"]) is TypeError
    assert (len(leases), leases.attempt_of(1), leases.attempt_of(5)) == (2, 1, 0)


# Credits.


@pytest.mark.parametrize("limit", [0, 1, 5, 6, 7, 2**40])
def test_picks_in_a_row_go_around_until_nobody_has_credit(Credits, limit):
    credits_ = Credits(10)
    for subscriber, credit in (("a", 3), ("nobody", 0), ("b", 1), ("c", 2)):
        ticket = credits_.join(subscriber)
        if credit:
            credits_.grant(ticket, credit)
    assert credits_.pick_many(limit) == ["a", "b", "c", "a", "c", "a"][:limit]
    assert credits_.pick_many(2**40) == ["a", "b", "c", "a", "c", "a"][limit:]
    assert (credits_.ready, credits_.pick()) == (0, None)


@pytest.mark.parametrize("limit", [-1, -(2**40)])
def test_a_limit_below_zero_is_refused(Credits, Ring, limit):
    ring, credits_ = Ring(2), Credits(2)
    ring.push("a")
    ticket = credits_.join("a")
    credits_.grant(ticket, 1)
    assert raised(ring.pop_many, limit) is ValueError
    assert raised(credits_.pick_many, limit) is ValueError
    assert (len(ring), credits_.credit_of(ticket)) == (1, 1)

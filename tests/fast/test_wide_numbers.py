"""A number that does not fit in 64 bits is out of bounds, or unknown, like any other that is."""

import pytest

from tests.fast.outcome import raised

TOO_LARGE = [2**63, 2**64, 2**64 + 1, 2**100]
TOO_SMALL = [-(2**63) - 1, -(2**64), -(2**100)]

wide = pytest.mark.parametrize("number", TOO_LARGE + TOO_SMALL)
too_large = pytest.mark.parametrize("number", TOO_LARGE)
too_small = pytest.mark.parametrize("number", TOO_SMALL)


@wide
def test_it_is_no_capacity_of_a_ring(Ring, number):
    assert raised(Ring, number) is ValueError


@wide
def test_it_is_no_capacity_of_a_dedupe(Dedupe, number):
    assert raised(Dedupe, number) is ValueError


@wide
def test_it_is_no_capacity_of_leases(Leases, number):
    assert raised(Leases, number) is ValueError


@wide
def test_it_is_no_bound_of_credits(Credits, number):
    assert raised(Credits, number) is ValueError


@too_small
def test_it_is_no_batch_and_no_sequence(Dedupe, number):
    dedupe = Dedupe(2)
    dedupe.claim(b"a", 1)
    assert raised(dedupe.claim, b"b", number) is ValueError
    assert raised(dedupe.commit, b"a", number) is ValueError
    assert raised(dedupe.remember, b"b", number) is ValueError
    assert (dedupe.find(b"a"), dedupe.find(b"b")) == (-1, 0)


@wide
def test_it_is_no_time_at_which_leases_start(Leases, number):
    assert raised(Leases, 1, number) is ValueError


@wide
def test_it_is_no_attempt_that_is_granted(Leases, number):
    leases = Leases(1)
    assert raised(leases.grant, 7, number, 100, "a") is ValueError
    assert len(leases) == 0


@wide
def test_it_is_no_deadline(Leases, number):
    leases = Leases(2)
    leases.grant(7, 1, 100, "a")
    assert raised(leases.grant, 8, 1, number, "b") is ValueError
    assert raised(leases.extend, 7, 1, number) is ValueError
    assert leases.expire(100) == [(7, 1, "a")]


@wide
def test_it_is_nobodys_attempt(Leases, number):
    leases = Leases(1)
    leases.grant(7, 1, 100, "a")
    assert leases.release(7, number) is None
    assert leases.extend(7, number, 200) is False
    assert leases.expire(100) == [(7, 1, "a")]


@wide
def test_it_is_no_key_that_is_leased(Leases, number):
    leases = Leases(1)
    assert leases.attempt_of(number) == 0
    assert leases.release(number, 1) is None
    assert leases.extend(number, 1, 200) is False


@too_large
def test_it_is_no_time_at_which_leases_expire(Leases, number):
    leases = Leases(1)
    assert raised(leases.expire, number) is ValueError
    assert leases.now_ms == 0


@too_small
def test_it_is_a_clock_that_went_backwards(Leases, number):
    leases = Leases(1, 1000)
    leases.grant(7, 1, 1000, "a")
    assert leases.expire(number) == [(7, 1, "a")]
    assert leases.now_ms == 1000


@too_small
def test_it_is_no_limit(Leases, number):
    assert raised(Leases(1).expire, 5, number) is ValueError


@wide
def test_it_is_no_ticket(Credits, number):
    credits_ = Credits(10)
    credits_.join("a")
    assert raised(credits_.leave, number) is KeyError
    assert raised(credits_.grant, number, 1) is KeyError
    assert raised(credits_.credit_of, number) is KeyError
    assert len(credits_) == 1


@too_large
def test_it_is_more_credit_than_anybody_may_hold(Credits, number):
    credits_ = Credits(10)
    ticket = credits_.join("a")
    assert raised(credits_.grant, ticket, number) is OverflowError
    assert (credits_.credit_of(ticket), credits_.ready) == (0, 0)


@too_small
def test_it_is_no_credit(Credits, number):
    credits_ = Credits(10)
    ticket = credits_.join("a")
    assert raised(credits_.grant, ticket, number) is ValueError
    assert (credits_.credit_of(ticket), credits_.ready) == (0, 0)

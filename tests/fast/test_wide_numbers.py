"""Numbers are signed 64-bit integers: a wider one raises OverflowError, and nothing is changed by the call."""

from collections.abc import Callable

import pytest

from _fast import Credits, Dedupe, Leases, Ring

WIDE = [2**63, 2**64, 2**64 + 1, 2**100, -(2**63) - 1, -(2**64), -(2**100)]

pytestmark = pytest.mark.parametrize("number", WIDE)


@pytest.mark.parametrize(
    "construct", [Ring, Dedupe, Leases, Credits, lambda number: Leases(1, number)], ids=lambda c: c.__name__
)
def test_nothing_is_constructed_from_a_wide_number(construct: Callable[[int], object], number: int) -> None:
    with pytest.raises(OverflowError):
        construct(number)


def test_a_wide_number_is_neither_batch_nor_sequence(number: int) -> None:
    dedupe = Dedupe(4)
    dedupe.claim(b"known", 1)
    for call in (
        lambda: dedupe.claim(b"new", number),
        lambda: dedupe.commit(b"known", number),
        lambda: dedupe.remember(b"new", number),
        lambda: dedupe.claim_many([b"new"], number),
        lambda: dedupe.commit_batch(number, 1),
        lambda: dedupe.commit_batch(1, number),
        lambda: dedupe.abort_batch(number),
    ):
        with pytest.raises(OverflowError):
            call()
    assert (len(dedupe), dedupe.in_flight, dedupe.find(b"known"), dedupe.find(b"new")) == (1, 1, -1, 0)


def test_a_wide_number_is_neither_key_attempt_deadline_time_nor_limit(number: int) -> None:
    leases: Leases[str] = Leases(4)
    leases.grant(1, 1, 10, "held")
    for call in (
        lambda: leases.grant(number, 1, 10, "x"),
        lambda: leases.grant(2, number, 10, "x"),
        lambda: leases.grant(2, 1, number, "x"),
        lambda: leases.release(number, 1),
        lambda: leases.release(1, number),
        lambda: leases.extend(number, 1, 20),
        lambda: leases.extend(1, 1, number),
        lambda: leases.attempt_of(number),
        lambda: leases.grant_many(number, [1], 10, ["x"]),
        lambda: leases.grant_many(2, [1, number], 10, ["x", "y"]),
        lambda: leases.grant_many(2, [1], number, ["x"]),
        lambda: leases.release_many([1, number], [1, 1]),
        lambda: leases.release_many([1, 2], [1, number]),
        lambda: leases.expire(number),
        lambda: leases.expire(10, number),
    ):
        with pytest.raises(OverflowError):
            call()
    assert (len(leases), leases.attempt_of(1), leases.now_ms) == (1, 1, 0)
    assert leases.expire(10) == [(1, 1, "held")]


def test_a_wide_number_is_neither_ticket_nor_credit(number: int) -> None:
    credits_: Credits[str] = Credits(10)
    ticket = credits_.join("somebody")
    for call in (
        lambda: credits_.grant(ticket, number),
        lambda: credits_.grant(number, 1),
        lambda: credits_.leave(number),
        lambda: credits_.credit_of(number),
        lambda: credits_.pick_many(number),
    ):
        with pytest.raises(OverflowError):
            call()
    assert (len(credits_), credits_.ready, credits_.credit_of(ticket)) == (1, 0, 0)


def test_a_wide_number_is_neither_a_limit_nor_a_count_of_places(number: int) -> None:
    ring: Ring[str] = Ring(4)
    ring.push_many(["waits", "held"])
    ring.pop()
    for call in (lambda: ring.pop_many(number), lambda: ring.release(number)):
        with pytest.raises(OverflowError):
            call()
    assert (len(ring), ring.held) == (1, 1)

"""Dedupe: what is known of an identity, in flight or committed, and who makes room for whom."""

import pytest

from tests.fast.outcome import raised

KEY = bytes(range(16))
A, B, C, D, E = (b"stream:agents/Jen/inbox\0e-%06d" % number for number in range(5))
LARGEST = 2**63 - 1


def counters(dedupe):
    return len(dedupe), dedupe.in_flight, dedupe.evictions, dedupe.capacity


def committed(Dedupe, capacity, identities):
    """A memory in which the identities are committed at 1, 2, 3 ..., the first least recently used."""
    dedupe = Dedupe(capacity)
    for seq, identity in enumerate(identities, 1):
        assert dedupe.claim(identity, 1) == 0
        dedupe.commit(identity, seq)
    return dedupe


def known(dedupe, *identities):
    return [identity for identity in identities if dedupe.find(identity)]


@pytest.mark.parametrize("capacity", [1, 2, 3, 1000, 65_536])
def test_a_new_memory_is_empty_and_keeps_its_capacity(Dedupe, capacity):
    dedupe = Dedupe(capacity)
    assert counters(dedupe) == (0, 0, 0, capacity)
    assert dedupe.find(A) == 0


@pytest.mark.parametrize("capacity", [0, -1, 2**30 + 1, 2**31, 2**32 + 1])
def test_a_capacity_out_of_bounds_is_refused(Dedupe, capacity):
    assert raised(Dedupe, capacity) is ValueError


@pytest.mark.parametrize("length", [0, 1, 8, 15, 17, 32])
def test_a_key_of_another_length_than_16_is_refused(Dedupe, length):
    assert raised(Dedupe, 1, bytes(length)) is ValueError


@pytest.mark.parametrize("key", [None, KEY, bytes(16), b"\xff" * 16])
def test_the_key_is_16_bytes_or_left_to_chance(Dedupe, key):
    dedupe = Dedupe(capacity=2, key=key)
    assert dedupe.claim(A, 7) == 0
    assert dedupe.find(A) == -7
    assert dedupe.find(B) == 0


def test_an_unknown_identity_goes_in_flight_with_its_batch(Dedupe):
    dedupe = Dedupe(4)
    assert dedupe.claim(A, 7) == 0
    assert counters(dedupe) == (1, 1, 0, 4)
    assert dedupe.find(A) == -7


def test_a_duplicate_of_an_identity_in_flight_is_answered_with_the_first_batch(Dedupe):
    dedupe = Dedupe(4)
    dedupe.claim(A, 7)
    assert dedupe.claim(A, 8) == -7
    assert dedupe.claim(A, 9) == -7
    assert counters(dedupe) == (1, 1, 0, 4)


def test_a_duplicate_of_a_committed_identity_is_answered_with_its_sequence(Dedupe):
    dedupe = Dedupe(4)
    dedupe.claim(A, 7)
    dedupe.commit(A, 1001)
    assert counters(dedupe) == (1, 0, 0, 4)
    assert dedupe.claim(A, 8) == 1001
    assert dedupe.find(A) == 1001
    assert counters(dedupe) == (1, 0, 0, 4)


@pytest.mark.parametrize("number", [1, 2, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**53 + 1, 2**62, LARGEST - 1, LARGEST])
def test_batches_and_sequences_are_kept_to_the_last_bit(Dedupe, number):
    dedupe = Dedupe(3)
    assert dedupe.claim(A, number) == 0
    assert dedupe.find(A) == -number
    assert dedupe.claim(A, 1) == -number
    dedupe.commit(A, number)
    dedupe.remember(B, number)
    for identity in (A, B):
        assert dedupe.find(identity) == number
        assert dedupe.claim(identity, 1) == number


@pytest.mark.parametrize("number", [0, -1, -(2**31), -(2**63)])
def test_a_batch_or_a_sequence_below_one_is_refused_and_changes_nothing(Dedupe, number):
    dedupe = committed(Dedupe, 3, [A, B])
    dedupe.claim(C, 5)
    for identity in (A, C, D):
        assert raised(dedupe.claim, identity, number) is ValueError
        assert raised(dedupe.remember, identity, number) is ValueError
    assert raised(dedupe.commit, C, number) is ValueError
    assert counters(dedupe) == (3, 1, 0, 3)
    assert [dedupe.find(identity) for identity in (A, B, C, D)] == [1, 2, -5, 0]
    dedupe.claim(D, 6)
    assert known(dedupe, A, B, C, D) == [B, C, D], "a refused claim counted as use of A"


@pytest.mark.parametrize("identity", [b"", b"\0", b"\0\0", b"x" * 7, b"x" * 8, b"x" * 9, b"x" * 15, b"x" * 1000])
def test_any_bytes_are_an_identity(Dedupe, identity):
    dedupe = Dedupe(4)
    assert dedupe.claim(identity, 3) == 0
    assert dedupe.find(identity) == -3
    assert dedupe.find(identity + b"\0") == 0
    dedupe.commit(identity, 9)
    assert dedupe.claim(identity, 4) == 9


def test_identities_that_differ_by_one_bit_are_different(Dedupe):
    identities = [(1 << bit).to_bytes(32, "big") for bit in range(256)]
    dedupe = committed(Dedupe, 256, identities)
    assert [dedupe.find(identity) for identity in identities] == list(range(1, 257))
    assert dedupe.evictions == 0


def test_an_equal_identity_in_another_object_is_the_same_identity(Dedupe):
    dedupe = Dedupe(2)
    dedupe.claim(bytes(bytearray(A)), 1)
    assert dedupe.claim(bytes(bytearray(A)), 2) == -1


def test_only_an_identity_in_flight_can_be_committed(Dedupe):
    dedupe = committed(Dedupe, 3, [A])
    dedupe.remember(B, 2)
    for identity in (A, B, C):
        assert raised(dedupe.commit, identity, 99) is KeyError
    assert [dedupe.find(identity) for identity in (A, B, C)] == [1, 2, 0]
    assert counters(dedupe) == (2, 0, 0, 3)


def test_a_refused_commit_is_no_use_of_the_identity(Dedupe):
    dedupe = committed(Dedupe, 2, [A, B])
    assert raised(dedupe.commit, A, 99) is KeyError
    dedupe.claim(C, 1)
    assert known(dedupe, A, B, C) == [B, C]


def test_an_aborted_identity_is_unknown_again(Dedupe):
    dedupe = Dedupe(1)
    dedupe.claim(A, 7)
    dedupe.abort(A)
    assert counters(dedupe) == (0, 0, 0, 1)
    assert dedupe.find(A) == 0
    assert dedupe.claim(A, 8) == 0
    assert dedupe.find(A) == -8


def test_only_an_identity_in_flight_can_be_aborted(Dedupe):
    dedupe = committed(Dedupe, 2, [A, B])
    for identity in (A, C):
        assert raised(dedupe.abort, identity) is KeyError
    assert counters(dedupe) == (2, 0, 0, 2)
    dedupe.claim(C, 1)
    assert known(dedupe, A, B, C) == [B, C], "a refused abort counted as use of A"
    dedupe.abort(C)
    assert raised(dedupe.abort, C) is KeyError


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 8, 9, 100])
def test_at_capacity_the_least_recently_used_makes_room_and_below_it_nobody_does(Dedupe, capacity):
    identities = [b"%d" % number for number in range(2 * capacity)]
    dedupe = committed(Dedupe, capacity, identities[:capacity])
    assert counters(dedupe) == (capacity, 0, 0, capacity)
    assert known(dedupe, *identities) == identities[:capacity]
    for number in range(capacity):
        assert dedupe.claim(identities[capacity + number], 1) == 0
        assert counters(dedupe) == (capacity, number + 1, number + 1, capacity)
        assert known(dedupe, *identities) == identities[number + 1 : capacity + number + 1]


def test_a_claim_of_a_committed_identity_counts_as_use(Dedupe):
    dedupe = committed(Dedupe, 3, [A, B, C])
    assert dedupe.claim(A, 9) == 1
    dedupe.claim(D, 9)
    assert known(dedupe, A, B, C, D) == [A, C, D]


def test_find_does_not_count_as_use(Dedupe):
    dedupe = committed(Dedupe, 3, [A, B, C])
    assert dedupe.find(A) == 1
    dedupe.claim(D, 9)
    assert known(dedupe, A, B, C, D) == [B, C, D]


def test_remembering_a_committed_identity_again_counts_as_use_and_keeps_its_sequence(Dedupe):
    dedupe = committed(Dedupe, 3, [A, B, C])
    dedupe.remember(A, 99)
    assert dedupe.find(A) == 1
    dedupe.claim(D, 9)
    assert known(dedupe, A, B, C, D) == [A, C, D]


def test_a_commit_is_the_most_recent_use_whenever_the_claim_was(Dedupe):
    dedupe = Dedupe(3)
    for identity in (A, B, C):
        dedupe.claim(identity, 1)
    for seq, identity in enumerate((B, C, A), 1):
        dedupe.commit(identity, seq)
    for identity, gone in ((D, B), (E, C)):
        dedupe.claim(identity, 2)
        assert dedupe.find(gone) == 0
    assert known(dedupe, A, B, C, D, E) == [A, D, E]


def test_an_identity_in_flight_is_never_evicted(Dedupe):
    dedupe = Dedupe(3)
    dedupe.claim(A, 1)
    for seq, identity in enumerate((B, C, D, E), 1):
        assert dedupe.claim(identity, 2) == 0
        dedupe.commit(identity, seq)
    assert known(dedupe, A, B, C, D, E) == [A, D, E]
    assert dedupe.find(A) == -1
    assert counters(dedupe) == (3, 1, 2, 3)


@pytest.mark.parametrize("capacity", [1, 2, 3, 8, 100])
def test_an_unknown_identity_is_refused_while_everything_is_in_flight_and_nothing_changes(Dedupe, capacity):
    dedupe = Dedupe(capacity)
    identities = [b"%d" % number for number in range(capacity)]
    for batch, identity in enumerate(identities, 1):
        assert dedupe.claim(identity, batch) == 0
    for _ in range(2):
        assert raised(dedupe.claim, A, 99) is OverflowError
        assert counters(dedupe) == (capacity, capacity, 0, capacity)
        assert dedupe.find(A) == 0
    assert [dedupe.claim(identity, 99) for identity in identities] == [-batch for batch in range(1, capacity + 1)]
    dedupe.commit(identities[0], 5)
    assert dedupe.claim(A, 99) == 0
    assert dedupe.find(identities[0]) == 0
    assert counters(dedupe) == (capacity, capacity, 1, capacity)


def test_an_abort_makes_room_without_an_eviction(Dedupe):
    dedupe = Dedupe(2)
    dedupe.claim(A, 1)
    dedupe.claim(B, 1)
    dedupe.abort(A)
    assert dedupe.claim(C, 1) == 0
    assert counters(dedupe) == (2, 2, 0, 2)


def test_a_remembered_identity_is_committed(Dedupe):
    dedupe = Dedupe(2)
    dedupe.remember(A, 41)
    assert counters(dedupe) == (1, 0, 0, 2)
    assert dedupe.claim(A, 1) == 41


def test_remembering_makes_room_like_a_claim_does(Dedupe):
    dedupe = committed(Dedupe, 2, [A, B])
    dedupe.remember(C, 3)
    assert known(dedupe, A, B, C) == [B, C]
    assert counters(dedupe) == (2, 0, 1, 2)
    dedupe.remember(D, 4)
    dedupe.remember(E, 5)
    assert [dedupe.find(identity) for identity in (A, B, C, D, E)] == [0, 0, 0, 4, 5]


def test_remembering_an_identity_in_flight_leaves_it_there(Dedupe):
    dedupe = Dedupe(2)
    dedupe.claim(A, 7)
    dedupe.remember(A, 41)
    assert dedupe.find(A) == -7
    assert counters(dedupe) == (1, 1, 0, 2)
    dedupe.commit(A, 42)
    assert dedupe.find(A) == 42


def test_nothing_is_remembered_while_everything_is_in_flight(Dedupe):
    dedupe = Dedupe(1)
    dedupe.claim(A, 7)
    dedupe.remember(B, 41)
    assert [dedupe.find(identity) for identity in (A, B)] == [-7, 0]
    assert counters(dedupe) == (1, 1, 0, 1)


def test_a_memory_of_one_goes_through_every_state(Dedupe):
    dedupe = Dedupe(1)
    assert dedupe.claim(A, 1) == 0
    assert raised(dedupe.claim, B, 2) is OverflowError
    dedupe.commit(A, 10)
    assert dedupe.claim(B, 2) == 0
    assert dedupe.find(A) == 0
    dedupe.abort(B)
    dedupe.remember(A, 10)
    dedupe.remember(B, 11)
    assert [dedupe.find(identity) for identity in (A, B)] == [0, 11]
    assert counters(dedupe) == (1, 0, 2, 1)


def test_a_long_history_leaves_the_last_capacity_identities(Dedupe):
    dedupe = Dedupe(500)
    for number in range(20_000):
        identity = b"identity-%d" % number
        assert dedupe.claim(identity, number + 1) == 0
        if number % 7 == 3:
            dedupe.abort(identity)
        else:
            dedupe.commit(identity, number + 1)
    kept = [number for number in range(20_000) if number % 7 != 3]
    assert dedupe.evictions == len(kept) - 500
    assert len(dedupe) == 500
    found = {number: dedupe.find(b"identity-%d" % number) for number in range(20_000)}
    assert {number: seq for number, seq in found.items() if seq} == {number: number + 1 for number in kept[-500:]}

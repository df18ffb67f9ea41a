"""References are counted exactly, cycles are collected, nothing leaks, and idle structures are small."""

import gc
import sys
import tracemalloc
import weakref
from pathlib import Path

import pytest

import _fast
from tests.fast import models
from tests.fast.outcome import outcome

IDENTITIES = [b"stream:agents/Jen/inbox\0e-%06d" % number for number in range(2_000)]
PAGE_BYTES = 4096


class Thing:
    """An item that can be watched, and that can refer to the structure that holds it."""

    def __init__(self):
        self.owner = None


def references(thing):
    return sys.getrefcount(thing)


def references_each(things):
    """How often each is referred to: one number, unless they differ."""
    counts = {sys.getrefcount(thing) for thing in things}
    return counts.pop() if len(counts) == 1 else counts


def resident_bytes():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES


def test_a_ring_owns_one_reference_to_what_waits_and_none_to_what_is_held(Ring):
    ring, thing = Ring(4), Thing()
    alone = references(thing)
    ring.push(thing)
    assert references(thing) == alone + 1
    ring.push(thing)
    assert references(thing) == alone + 2
    ring.pop()
    assert references(thing) == alone + 1
    ring.requeue(thing)
    assert references(thing) == alone + 2
    ring.pop()
    ring.restore(thing)
    assert references(thing) == alone + 2
    ring.compact()
    assert references(thing) == alone + 2
    ring.pop()
    ring.pop()
    ring.release()
    assert references(thing) == alone


def test_a_ring_that_refuses_an_item_keeps_no_reference_to_it(Ring):
    ring, thing = Ring(1), Thing()
    alone = references(thing)
    assert outcome(ring.requeue, thing) == outcome(ring.restore, thing) == ("raised", ValueError)
    ring.push("a")
    assert ring.push(thing) is False
    assert references(thing) == alone


def test_growth_and_compaction_move_references_without_counting_them_twice(Ring):
    ring, first, rest = Ring(1000), [Thing() for _ in range(450)], [Thing() for _ in range(50)]
    alone = references_each(first)
    for thing in (*first, *rest):
        ring.push(thing)
    del thing
    assert references_each(first) == references_each(rest) == alone + 1
    for _ in range(450):
        ring.pop()
    ring.compact()
    assert references_each(first) == alone
    assert references_each(rest) == alone + 1


def test_leases_own_one_reference_to_what_is_out(Leases):
    leases, thing = Leases(200), Thing()
    alone = references(thing)
    leases.grant(1, 1, 100, thing)
    assert references(thing) == alone + 1
    assert outcome(leases.grant, 1, 1, 100, thing) == ("raised", ValueError)
    leases.extend(1, 1, 5000)
    leases.release(1, 2)
    assert references(thing) == alone + 1
    leases.release(1, 1)
    assert references(thing) == alone
    for key in range(200):
        leases.grant(key, 1, key, thing)
    assert leases.grant(200, 1, 100, thing) is False
    assert references(thing) == alone + 200
    due = leases.expire(99)
    assert references(thing) == alone + 200
    del due
    assert references(thing) == alone + 100
    leases.expire(5000)
    assert references(thing) == alone


def test_credits_own_one_reference_to_a_subscriber_until_it_leaves(Credits):
    credits_, thing = Credits(10), Thing()
    alone = references(thing)
    tickets = [credits_.join(thing) for _ in range(20)]
    assert references(thing) == alone + 20
    for ticket in tickets:
        credits_.grant(ticket, 2)
    for _ in range(50):
        credits_.pick()
    assert references(thing) == alone + 20
    for left, ticket in enumerate(tickets, 1):
        credits_.leave(ticket)
        assert references(thing) == alone + 20 - left


def test_a_ring_counts_the_references_of_a_batch_once_and_keeps_none_to_what_it_refused(Ring):
    ring, things, refused = Ring(300), [Thing() for _ in range(300)], [Thing() for _ in range(50)]
    alone = references_each(things)
    ring.push_many(things)
    assert references_each(things) == alone + 1
    assert ring.push_many(refused) == 0
    assert references_each(refused) == alone
    taken = ring.pop_many(300)
    assert references_each(things) == alone + 1
    taken.clear()
    assert references_each(things) == alone


def test_leases_count_the_references_of_a_batch_once(Leases):
    leases, things, refused = Leases(300), [Thing() for _ in range(300)], [Thing() for _ in range(50)]
    alone = references_each(things)
    leases.grant_many(0, [1] * 300, 100, things)
    assert leases.grant_many(300, [1] * 50, 100, refused) == 0
    assert (references_each(things), references_each(refused)) == (alone + 1, alone)
    assert leases.release_many(list(range(300)), [2] * 300) == [None] * 300
    taken = leases.release_many(list(range(300)), [1] * 300)
    assert references_each(things) == alone + 1
    taken.clear()
    assert references_each(things) == alone


def test_a_batch_of_picks_owns_a_reference_for_each(Credits):
    credits_, thing = Credits(10), Thing()
    alone = references(thing)
    credits_.grant(credits_.join(thing), 10)
    picked = credits_.pick_many(7)
    assert references(thing) == alone + 1 + 7
    del picked
    assert references(thing) == alone + 1


def test_dedupe_keeps_no_reference_to_an_identity():
    dedupe, identity = _fast.Dedupe(2), bytes(bytearray(b"an identity"))
    alone = references(identity)
    dedupe.claim(identity, 1)
    dedupe.claim_many([identity, identity], 1)
    dedupe.find(identity)
    dedupe.commit(identity, 1)
    dedupe.remember(identity, 1)
    assert outcome(dedupe.abort, identity) == ("raised", KeyError)
    assert references(identity) == alone


def filled_ring(Ring, things):
    ring = Ring(len(things) + 3)
    for number in range(3):
        ring.push(number)
    for thing in things:
        ring.push(thing)
    for _ in range(3):
        ring.pop()
    ring.requeue(0)
    return ring


def filled_leases(Leases, things):
    leases = Leases(len(things))
    for key, thing in enumerate(things):
        leases.grant(key, 1, key * key * key, thing)
    return leases


def filled_credits(Credits, things):
    credits_ = Credits(10)
    for number, thing in enumerate(things):
        ticket = credits_.join(thing)
        if number % 2:
            credits_.grant(ticket, 3)
    credits_.pick()
    return credits_


FILLED = [
    pytest.param((fill, getattr(module, name)), id=f"{name}-{flavour}")
    for name, fill in (("Ring", filled_ring), ("Leases", filled_leases), ("Credits", filled_credits))
    for flavour, module in (("compiled", _fast), ("model", models))
]


@pytest.fixture(params=FILLED)
def filled(request):
    """A function that makes a structure that holds the things given."""
    fill, implementation = request.param
    return lambda things: fill(implementation, things)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 64, 65, 300])
def test_a_structure_that_dies_lets_go_of_everything_it_held(filled, count):
    things = [Thing() for _ in range(count)]
    alone = references_each(things)
    structure = filled(things)
    assert references_each(things) == alone + 1
    del structure
    assert references_each(things) == alone


@pytest.mark.parametrize("count", [1, 8, 100])
def test_a_cycle_through_a_structure_is_collected(filled, count):
    things = [Thing() for _ in range(count)]
    structure = filled(things)
    for thing in things:
        thing.owner = structure
    alive = [weakref.ref(thing) for thing in things]
    del structure, thing, things
    assert all(reference() is not None for reference in alive), "there was no cycle"
    gc.collect()
    assert [reference() for reference in alive] == [None] * count


def test_the_collector_sees_what_a_structure_holds_and_takes_nothing_that_is_in_use(filled):
    things = [Thing() for _ in range(20)]
    alone = references_each(things)
    structure = filled(things)
    for thing in things:
        thing.owner = structure
    del thing
    for _ in range(3):
        gc.collect()
    assert gc.is_tracked(structure)
    assert references_each(things) == alone + 1


def refuse_everything(ring, dedupe, leases, credits_, ticket):
    """Every documented refusal once; a refusal that keeps something shows after a hundred thousand of them."""
    outcome(ring.push, None)
    outcome(ring.release)
    outcome(ring.push_many, [[], None])
    outcome(ring.pop_many, -1)
    outcome(dedupe.claim, b"a", 0)
    outcome(dedupe.claim_many, [b"a", "b"], 1)
    outcome(dedupe.commit_batch, 1, 0)
    outcome(dedupe.commit, b"unknown", 1)
    outcome(dedupe.abort, b"unknown")
    outcome(leases.grant, 1, 0, 100, "x")
    outcome(leases.grant, 1, 1, 2**48, "x")
    outcome(leases.grant, 1, 1, 100, None)
    outcome(leases.grant_many, 1, [1, 0], 100, [[], []])
    outcome(leases.grant_many, 1, [1, 2**64], 100, [[], []])
    outcome(leases.release_many, [1, "x"], [1, 1])
    outcome(leases.release_many, [1, 2], [1, 2**64])
    outcome(credits_.pick_many, -1)
    outcome(leases.expire, 0, 0)
    outcome(credits_.join, None)
    outcome(credits_.leave, ticket + 1)
    outcome(credits_.grant, ticket, 10**9)
    outcome(credits_.grant, ticket, 0)
    outcome(credits_.credit_of, 0)


def operate(cycles, ring, dedupe, leases, credits_, ticket, start):
    """The life of an event, `cycles` times; some 14 operations each. Now and then something goes the other way."""
    for number in range(start, start + cycles):
        identity = IDENTITIES[number % 2000]
        if dedupe.claim(identity, number + 1) == 0:
            dedupe.commit(identity, number + 1)
        dedupe.remember(identity, 1)
        ring.push([number])
        if number % 3 == 0:
            ring.requeue(ring.pop())
            ring.restore(ring.pop())
        credits_.pick()
        item = ring.pop()
        leases.grant(number, 1, number + 50 + number % 7, item)
        leases.extend(number, 1, number + 100)
        if number % 5:
            leases.release(number, 1)
            ring.release()
        else:
            for _ in leases.expire(number):
                ring.release()
        credits_.grant(ticket, 1)
        if number % 1000 == 0:
            ring.compact()
            credits_.leave(credits_.join([number]))
            refuse_everything(ring, dedupe, leases, credits_, ticket)


def operate_in_batches(cycles, ring, dedupe, leases, credits_, ticket, start):
    """The same life, eight events at a time; sometimes there is room for fewer."""
    for number in range(start, start + cycles, 8):
        identities = [b"batch " + IDENTITIES[(number + step) % 2000] for step in range(8)]
        dedupe.claim_many(identities, number + 1)
        if number % 3:
            dedupe.commit_batch(number + 1, number + 1)
        else:
            dedupe.abort_batch(number + 1)
        ring.push_many([[number + step] for step in range(8 if number % 5 else 700)])
        items = ring.pop_many(len(credits_.pick_many(8)))
        granted = leases.grant_many(-number, [1] * len(items), number + 50, items)
        done = leases.release_many(list(range(-number, 8 - number)), [1] * 8)
        ring.release(granted)
        credits_.grant(ticket, granted)
        assert granted == sum(item is not None for item in done) == 8
        ring.release(len(ring.pop_many(1000)))


def test_a_million_operations_leave_no_trace():
    ring, dedupe, leases, credits_ = _fast.Ring(500), _fast.Dedupe(1000), _fast.Leases(500), _fast.Credits(100)
    ticket = credits_.join("a")
    credits_.grant(ticket, 50)
    structures = (ring, dedupe, leases, credits_, ticket)
    operate(20_000, *structures, start=0)
    operate_in_batches(5_000, *structures, start=0)
    gc.collect()
    blocks, objects, growths = sys.getallocatedblocks(), len(gc.get_objects()), []
    for start in (20_000, 45_000, 70_000):
        resident = resident_bytes()
        operate(25_000, *structures, start=start)
        operate_in_batches(25_000, *structures, start=start)
        gc.collect()
        growths.append(resident_bytes() - resident)
    assert abs(sys.getallocatedblocks() - blocks) < 200
    assert abs(len(gc.get_objects()) - objects) < 50
    assert min(growths) < 128 * 1024, f"a leak grows in every pass: {growths}"
    tracemalloc.start()
    try:
        operate(1_000, *structures, start=95_000)
        before, _ = tracemalloc.get_traced_memory()
        operate(10_000, *structures, start=96_000)
        operate_in_batches(10_000, *structures, start=96_000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 32 * 1024


def test_refusals_leave_no_trace():
    ring, dedupe, leases, credits_ = _fast.Ring(1), _fast.Dedupe(1), _fast.Leases(1), _fast.Credits(1)
    structures = (ring, dedupe, leases, credits_, credits_.join("a"))
    refuse_everything(*structures)
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(5_000):
        refuse_everything(*structures)
    gc.collect()
    assert abs(sys.getallocatedblocks() - blocks) < 200


@pytest.mark.parametrize("make", [filled_ring, filled_leases, filled_credits], ids=["Ring", "Leases", "Credits"])
def test_structures_that_come_and_go_leave_no_trace(make):
    implementation = getattr(_fast, {filled_ring: "Ring", filled_leases: "Leases", filled_credits: "Credits"}[make])
    things = [Thing() for _ in range(100)]
    for _ in range(200):
        make(implementation, things)
    gc.collect()
    resident, blocks = resident_bytes(), sys.getallocatedblocks()
    for _ in range(3_000):
        make(implementation, things)
    gc.collect()
    assert abs(sys.getallocatedblocks() - blocks) < 200
    assert resident_bytes() - resident < 512 * 1024


def test_memories_that_come_and_go_leave_no_trace():
    def come_and_go(count):
        for _ in range(count):
            dedupe = _fast.Dedupe(2_000)
            for identity in IDENTITIES[:20]:
                dedupe.claim(identity, 1)

    come_and_go(100)
    gc.collect()
    resident = resident_bytes()
    come_and_go(2_000)
    gc.collect()
    assert resident_bytes() - resident < 512 * 1024

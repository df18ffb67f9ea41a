"""A destructor may call back into the structure that is at work: nothing is lost, doubled or torn.

Two ways lead back. Dropping the last reference to an item runs its destructor. And allocating a
container may run the garbage collector, which runs the destructors of unrelated rubbish; up to
Python 3.11 it does so in the middle of a compiled call. These tests make it do so at one allocation
after the other, and call back with everything that could pull the rug away. The models make no
promise there, and sit out.
"""

import gc
import weakref
from functools import partial

import pytest

import _fast
from tests.fast import models
from tests.fast.outcome import outcome, raised

MOMENTS = range(1, 13)


class Rubbish:
    """A cycle that calls back when it is collected, or leaves that to its successor."""

    def __init__(self, moment, callback):
        self.moment, self.callback, self.cycle = moment, callback, self

    def __del__(self):
        if self.moment == 1:
            self.callback()
        else:
            Rubbish(self.moment - 1, self.callback)


def collecting(call, moment, callback):
    """What `call` returns when the collector runs at nearly every allocation; the callback comes at the one given.

    A call that allocates less than that is called back when it is over.
    """
    failures = []
    calls = []

    def guarded():
        calls.append(True)
        try:
            callback()
        except (AssertionError, LookupError, TypeError, ValueError, OverflowError) as failure:
            failures.append(failure)

    # Without the free lists of the interpreter, every list and every tuple is an allocation.
    ballast = [*([] for _ in range(100)), *((number, 1, 1) for number in range(2_100))]
    gc.disable()
    gc.freeze()  # the collector need not look at the rest of the world, some hundred times
    thresholds = gc.get_threshold()
    Rubbish(moment, guarded)
    try:
        gc.set_threshold(1)
        gc.enable()
        answer = call()
        for _ in range(moment):
            gc.collect()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        del ballast
    if failures:
        raise failures[0]
    assert calls == [True]
    return answer


class LeasesLedger:
    """Leases, and the keys that must be out if every answer so far was true."""

    def __init__(self, capacity):
        self.leases = _fast.Leases(capacity)
        self.out = set()

    def grant(self, keys, deadline_ms):
        for key in keys:
            if key not in self.out and self.leases.grant(key, 1, deadline_ms, f"item {key}"):
                self.out.add(key)

    def release(self, keys):
        for key in keys:
            if key in self.out:
                assert self.leases.release(key, 1) == f"item {key}"
                self.out.remove(key)

    def extend(self, keys, deadline_ms):
        for key in keys:
            assert self.leases.extend(key, 1, deadline_ms) is (key in self.out)

    def expire(self, now_ms, limit):
        for key, attempt, item in self.leases.expire(now_ms, limit):
            assert (attempt, item) == (1, f"item {key}")
            self.out.remove(key)

    def check(self):
        """Every lease is there once, nothing else is, and all places can be used again."""
        leases = self.leases
        assert len(leases) == len(self.out)
        assert {key for key in range(2000) if leases.attempt_of(key)} == self.out
        assert sorted(key for key, _, _ in leases.expire(10_000)) == sorted(self.out)
        assert (len(leases), leases.next_deadline_ms()) == (0, -1)
        for key in range(leases.capacity):
            assert leases.grant(key, 2, 20_000 + key, key) is True
        assert leases.grant(-1, 2, 20_000, "one too many") is False
        assert leases.expire(30_000) == [(key, 2, key) for key in range(leases.capacity)]


LEASES_CALLBACKS = {
    "grants a few": lambda ledger: ledger.grant(range(1000, 1003), 500),
    "grants many": lambda ledger: ledger.grant(range(1000, 1300), 500),
    "grants as many again": lambda ledger: ledger.grant(range(1000, 1000 + len(ledger.out)), 500),
    "grants the same": lambda ledger: ledger.grant(range(300), 500),
    "releases": lambda ledger: ledger.release(range(0, 200, 2)),
    "releases and grants": lambda ledger: (ledger.release(range(0, 200, 3)), ledger.grant(range(1000, 1300), 90)),
    "extends": lambda ledger: ledger.extend(range(0, 200, 2), 900),
    "expires some": lambda ledger: ledger.expire(100, 5),
    "expires all": lambda ledger: ledger.expire(5000, 1000),
}


@pytest.mark.parametrize("waiting", [1, 10, 63, 64, 65, 128])
@pytest.mark.parametrize("callback", LEASES_CALLBACKS)
def test_leases_that_are_changed_while_they_expire_lose_and_double_nothing(callback, waiting):
    for moment in MOMENTS:
        ledger = LeasesLedger(400)
        ledger.grant(range(waiting), 100)
        under_way = set()

        def call_back(ledger=ledger, under_way=under_way):
            """Leases that have ended, but that the call has not returned yet, may be granted anew."""
            under_way |= {key for key in ledger.out if not ledger.leases.attempt_of(key)}
            ledger.out -= under_way
            LEASES_CALLBACKS[callback](ledger)

        due = collecting(partial(ledger.leases.expire, 100), moment, call_back)
        assert all((attempt, item) == (1, f"item {key}") for key, attempt, item in due)
        returned = [key for key, _, _ in due]
        assert len(set(returned)) == len(returned)
        assert under_way <= set(returned)
        assert set(returned) - under_way <= ledger.out | set(range(waiting))
        ledger.out -= set(returned) - under_way
        ledger.check()


@pytest.mark.parametrize("waiting", [0, 1, 63, 64, 65, 127, 128, 256])
@pytest.mark.parametrize("callback", LEASES_CALLBACKS)
def test_leases_that_are_changed_while_they_grow_lose_and_double_nothing(callback, waiting):
    for moment in MOMENTS[:3]:
        ledger = LeasesLedger(400)
        ledger.grant(range(waiting), 100)
        grant = partial(ledger.leases.grant, 1999, 1, 9_000, "item 1999")
        if collecting(grant, moment, lambda ledger=ledger: LEASES_CALLBACKS[callback](ledger)):
            ledger.out.add(1999)
        else:
            assert len(ledger.leases) == ledger.leases.capacity
        ledger.check()


class RingLedger:
    """A ring, the numbers that must wait in it in this order, and anywhere among them "the item"."""

    def __init__(self, capacity):
        self.ring = _fast.Ring(capacity)
        self.waiting = []
        self.pushed = self.taken = 0

    def push(self, count):
        for _ in range(count):
            self.pushed += 1
            if self.ring.push(self.pushed):
                self.waiting.append(self.pushed)

    def pop(self, count):
        for _ in range(min(count, len(self.ring))):
            item = self.ring.pop()
            if item == "the item":
                self.taken += 1
            else:
                assert item == self.waiting.pop(0)

    def put_back(self):
        for number in range(-self.ring.held, 0):
            if number % 2:
                self.ring.requeue(number)
                self.waiting.append(number)
            else:
                self.ring.restore(number)
                self.waiting.insert(0, number)

    def check(self, accepted):
        """What waits is what must, "the item" once if it was accepted, and all places can be used again."""
        ring, present = self.ring, accepted - self.taken
        assert len(ring) == len(self.waiting) + present
        assert len(ring) <= ring.allocated <= ring.capacity
        drained = [ring.pop() for _ in range(len(ring))]
        assert drained.count("the item") == present
        assert [item for item in drained if item != "the item"] == self.waiting
        for _ in range(ring.held):
            ring.release()
        assert [ring.push(number) for number in range(ring.capacity + 1)] == [True] * ring.capacity + [False]
        assert [ring.pop() for _ in range(ring.capacity)] == list(range(ring.capacity))


RING_CALLBACKS = {
    "pushes": lambda ledger: ledger.push(3),
    "pushes until full": lambda ledger: ledger.push(200),
    "pops": lambda ledger: ledger.pop(5),
    "pops all": lambda ledger: ledger.pop(200),
    "pops all and compacts": lambda ledger: (ledger.pop(200), ledger.ring.compact()),
    "pops and pushes": lambda ledger: (ledger.pop(7), ledger.push(30)),
    "puts back": lambda ledger: ledger.put_back(),
    "compacts": lambda ledger: ledger.ring.compact(),
    "pushes, pops and compacts": lambda ledger: (ledger.push(40), ledger.pop(30), ledger.ring.compact()),
}


@pytest.mark.parametrize("waiting", [0, 1, 7, 8, 9, 16, 32, 64, 95, 100])
@pytest.mark.parametrize("call", ["push", "requeue", "restore", "compact"])
@pytest.mark.parametrize("callback", RING_CALLBACKS)
def test_a_ring_that_is_changed_while_it_resizes_loses_and_doubles_nothing(callback, call, waiting):
    for popped in (0, 5):
        ledger = RingLedger(100)
        ledger.push(waiting + popped)
        ledger.pop(popped)
        args = () if call == "compact" else ("the item",)
        answer = collecting(
            partial(outcome, getattr(ledger.ring, call), *args),
            1,
            lambda ledger=ledger: RING_CALLBACKS[callback](ledger),
        )
        assert answer in {
            "push": [("returned", True), ("returned", False)],
            "compact": [("returned", None)],
        }.get(call, [("returned", None), ("raised", ValueError)])
        ledger.check(accepted=call != "compact" and answer in [("returned", True), ("returned", None)])


class CreditsLedger:
    """Credits, and the subscriber and the credit that each ticket must have."""

    def __init__(self, implementation):
        self.credits = implementation(5)
        self.subscribers = {}
        self.credit = {}
        self.left = set()

    def join(self, count):
        for number in range(count):
            subscriber = f"subscriber {len(self.subscribers) + len(self.left)}, {number}"
            self.joined(self.credits.join(subscriber), subscriber)

    def joined(self, ticket, subscriber):
        assert ticket not in self.credit.keys() | self.left
        self.subscribers[ticket] = subscriber
        self.credit[ticket] = 0

    def leave(self, count):
        for ticket in list(self.credit)[:count]:
            del self.credit[ticket], self.subscribers[ticket]
            self.left.add(ticket)
            self.credits.leave(ticket)

    def grant(self):
        for ticket in self.credit:
            if self.credit[ticket] < 5:
                self.credit[ticket] = self.credits.grant(ticket, 1)

    def check(self):
        """Everybody is there with the credit that must be, nobody else is, and all get their turns."""
        credits_ = self.credits
        assert len(credits_) == len(self.credit)
        assert {raised(credits_.credit_of, ticket) for ticket in self.left} <= {KeyError}
        assert {ticket: credits_.credit_of(ticket) for ticket in self.credit} == self.credit
        assert credits_.ready == sum(credit > 0 for credit in self.credit.values())
        for _ in range(sum(self.credit.values())):
            assert credits_.pick() is not None
        assert credits_.pick() is None
        for ticket in self.subscribers:
            credits_.grant(ticket, 1)
        assert [credits_.pick() for _ in self.subscribers] == list(self.subscribers.values())


CREDITS_CALLBACKS = {
    "joins": lambda ledger: ledger.join(1),
    "joins many": lambda ledger: ledger.join(100),
    "leaves": lambda ledger: ledger.leave(2),
    "leaves and joins": lambda ledger: (ledger.leave(3), ledger.join(40)),
    "everybody leaves": lambda ledger: ledger.leave(1000),
    "grants": lambda ledger: ledger.grant(),
}


@pytest.mark.parametrize("present", [0, 1, 3, 4, 5, 7, 8, 16, 64])
@pytest.mark.parametrize("callback", CREDITS_CALLBACKS)
def test_credits_that_are_changed_while_they_grow_lose_and_double_nothing(callback, present):
    ledger = CreditsLedger(_fast.Credits)
    ledger.join(present)
    ledger.grant()
    ticket = collecting(partial(ledger.credits.join, "the subscriber"), 1, lambda: CREDITS_CALLBACKS[callback](ledger))
    ledger.joined(ticket, "the subscriber")
    ledger.check()


@pytest.mark.parametrize("credit", [0, 2])
@pytest.mark.parametrize("present", [0, 1, 3, 4, 8])
@pytest.mark.parametrize("callback", CREDITS_CALLBACKS)
def test_a_subscriber_whose_destructor_calls_back_leaves_in_peace(Credits, callback, present, credit):
    class Subscriber:
        def __del__(self):
            CREDITS_CALLBACKS[callback](ledger)
            died.append(True)

    died = []
    ledger = CreditsLedger(Credits)
    ledger.join(present)
    ledger.grant()
    ticket = ledger.credits.join(Subscriber())
    if credit:
        ledger.credits.grant(ticket, credit)
    ledger.credits.leave(ticket)
    ledger.left.add(ticket)
    assert died == [True]
    assert raised(ledger.credits.leave, ticket) is KeyError
    ledger.check()


class Caller:
    """An item that refers to its structure and calls back into it when the two of them are collected."""

    def __init__(self, structure, act, died):
        self.structure, self.act, self.died = structure, act, died

    def __del__(self):
        self.act(self.structure)
        self.died.append(True)


def hold_in_ring(ring, item):
    ring.push(item)


def hold_in_leases(leases, item):
    leases.grant(len(leases), 1, 100, item)


def hold_in_credits(credits_, item):
    credits_.grant(credits_.join(item), 1)


LAST_ACTS = [
    ("Ring", 1000, hold_in_ring, lambda ring: (ring.pop(), ring.push("x"), ring.compact())),
    ("Ring", 1000, hold_in_ring, lambda ring: [ring.push(number) for number in range(100)]),
    ("Leases", 1000, hold_in_leases, lambda leases: (leases.release(0, 1), outcome(leases.grant, 999, 1, 50, "x"))),
    ("Leases", 1000, hold_in_leases, lambda leases: leases.expire(100, 2)),
    ("Credits", 1000, hold_in_credits, lambda credits_: (credits_.join("x"), credits_.pick())),
]


@pytest.mark.parametrize("module", [pytest.param(_fast, id="compiled"), pytest.param(models, id="model")])
@pytest.mark.parametrize(("name", "bound", "hold", "act"), LAST_ACTS)
@pytest.mark.parametrize("count", [1, 8, 70])
def test_items_may_use_their_structure_while_both_are_collected(module, name, bound, hold, act, count):
    structure, died = getattr(module, name)(bound), []
    for _ in range(count):
        hold(structure, Caller(structure, act, died))
    witness = Caller(structure, lambda each: None, died)
    alive = weakref.ref(witness)
    hold(structure, witness)
    del structure, witness
    for _ in range(3):
        gc.collect()
    assert alive() is None
    assert died == [True] * (count + 1)

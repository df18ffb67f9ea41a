"""Random programs on a compiled structure and its model: every answer, and all that can be seen, agrees."""

import os

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import _fast
from tests.fast import models
from tests.fast.outcome import outcome

# A machine under torture takes minutes, more than the time that any test is otherwise given.
pytestmark = pytest.mark.timeout(3600 if os.environ.get("HYPOTHESIS_PROFILE") == "torture" else 300)

FEW = st.integers(1, 8)
MANY = st.sampled_from([9, 15, 16, 17, 63, 64, 65, 100, 129, 300])


class SideBySide(RuleBasedStateMachine):
    """Two structures that are given the same calls."""

    def agree(self, name, *args):
        """Call both; the answer, or the type of the exception, that they agree on."""
        compiled, model = (outcome(getattr(each, name), *args) for each in (self.compiled, self.model))
        assert compiled == model, f"{name}{args}"
        return compiled[1]

    def look(self, *names):
        """Both show the same in these properties, and have the same length."""
        assert len(self.compiled) == len(self.model)
        for name in names:
            assert getattr(self.compiled, name) == getattr(self.model, name), name


class RingMachine(SideBySide):
    @initialize(capacity=FEW | MANY)
    def start(self, capacity):
        self.compiled, self.model = _fast.Ring(capacity), models.Ring(capacity)
        self.pushed = 0

    @rule(count=FEW | MANY)
    def push(self, count):
        for _ in range(count):
            self.pushed += 1
            before, full = self.compiled.allocated, len(self.compiled) == self.compiled.allocated
            self.agree("push", f"item {self.pushed}")
            assert self.compiled.allocated == before or (full and before < self.compiled.allocated)

    @rule(count=FEW | MANY)
    def pop(self, count):
        before = self.compiled.allocated
        for _ in range(count):
            self.agree("pop")
        assert self.compiled.allocated == before

    @rule(count=FEW | MANY)
    def push_pop_and_release(self, count):
        """Turns the head around the storage."""
        for _ in range(count):
            self.pushed += 1
            self.agree("push", f"item {self.pushed}")
            self.agree("pop")
            self.agree("release")

    @rule(count=FEW | MANY, name=st.sampled_from(["requeue", "restore"]))
    def put_back(self, count, name):
        for _ in range(min(count, self.model.held) or 1):
            self.pushed += 1
            self.agree(name, f"item {self.pushed}")

    @rule(count=FEW)
    def release(self, count):
        for _ in range(count):
            self.agree("release")

    @rule()
    def compact(self):
        before = self.compiled.allocated
        self.agree("compact")
        assert self.compiled.allocated <= before

    @rule(name=st.sampled_from(["push", "requeue", "restore"]))
    def offer_none(self, name):
        if name == "push" or self.model.held:
            assert self.agree(name, None) is TypeError

    @invariant()
    def they_look_the_same(self):
        self.look("capacity", "held")
        assert len(self.compiled) <= self.compiled.allocated <= self.compiled.capacity

    def teardown(self):
        while len(self.model):
            self.agree("pop")
        assert self.agree("pop") is None


class DedupeMachine(SideBySide):
    NUMBERS = st.integers(1, 5) | st.sampled_from([2**31, 2**32 + 1, 2**63 - 1])

    @initialize(capacity=FEW | MANY)
    def start(self, capacity):
        self.compiled, self.model = _fast.Dedupe(capacity), models.Dedupe(capacity)
        # One and a half times as many identities as there is room for: hits, misses and evictions alike.
        self.identities = [
            b"stream:agents/Jen/inbox\0e-%06d" % number for number in range(capacity + capacity // 2 + 2)
        ]

    def some(self, start, count):
        return [self.identities[(start + step) % len(self.identities)] for step in range(count)]

    @rule(start=st.integers(0, 500), count=FEW | MANY, batch=NUMBERS)
    def claim(self, start, count, batch):
        for identity in self.some(start, count):
            assert self.compiled.find(identity) == self.model.find(identity)
            self.agree("claim", identity, batch)

    @rule(start=st.integers(0, 500), count=FEW | MANY, seq=NUMBERS)
    def commit(self, start, count, seq):
        for identity in self.some(start, count):
            self.agree("commit", identity, seq)

    @rule(start=st.integers(0, 500), count=FEW | MANY, seq=NUMBERS)
    def remember(self, start, count, seq):
        for identity in self.some(start, count):
            self.agree("remember", identity, seq)

    @rule(start=st.integers(0, 500), count=FEW)
    def abort(self, start, count):
        for identity in self.some(start, count):
            self.agree("abort", identity)

    @rule(start=st.integers(0, 500), count=FEW | MANY, batch=NUMBERS)
    def claim_and_commit(self, start, count, batch):
        for identity in self.some(start, count):
            if self.agree("claim", identity, batch) == 0:
                self.agree("commit", identity, batch)

    @rule(start=st.integers(0, 500), number=st.integers(-2, 0), name=st.sampled_from(["claim", "remember"]))
    def offer_a_number_below_one(self, start, number, name):
        assert self.agree(name, self.some(start, 1)[0], number) is ValueError

    @invariant()
    def they_look_the_same(self):
        self.look("capacity", "in_flight", "evictions")
        for identity in self.identities[:24]:
            self.agree("find", identity)

    def teardown(self):
        for identity in self.identities:
            self.agree("find", identity)
        # The order of use shows in the order of eviction, once nothing is in flight.
        for identity in self.identities:
            self.agree("abort", identity)
        for number in range(len(self.model)):
            self.agree("claim", b"a new one, %d" % number, 1)
            for identity in self.identities:
                self.agree("find", identity)


HORIZON_MS = 2**48
BOUNDARIES = sorted({2**bit + step for bit in range(48) for step in (-1, 0, 1)} | {HORIZON_MS - 2, HORIZON_MS - 1})
KEYS = st.integers(0, 20) | st.sampled_from([-1, -(2**63), 2**31, 2**32, 2**32 + 1, 2**63 - 1])
ATTEMPTS = st.sampled_from([1, 2, 2**31 - 1])
LIMITS = st.sampled_from([0, 1, 1, 2, 3, 8, 2**62, 2**62])


@st.composite
def times(draw, now_ms):
    """A moment, mostly soon: a boundary's distance away, or close to where some digit of the clock turns."""
    if draw(st.booleans()):
        return now_ms + draw(st.integers(-3, 200) | st.sampled_from(BOUNDARIES[:40]) | st.sampled_from(BOUNDARIES))
    span = 1 << draw(st.integers(0, 13) | st.integers(0, 47))
    return (now_ms // span + draw(st.integers(0, 3))) * span + draw(st.integers(-2, 2))


class LeasesMachine(SideBySide):
    @initialize(capacity=FEW | MANY, now_ms=st.integers(0, 100) | st.sampled_from(BOUNDARIES))
    def start(self, capacity, now_ms):
        self.compiled, self.model = _fast.Leases(capacity, now_ms), models.Leases(capacity, now_ms)
        self.granted = 0
        self.deadlines = [now_ms]

    def key(self, data):
        """A key that is out, three times out of four."""
        out = list(self.model._leases)
        return data.draw(st.sampled_from(out) if out and data.draw(st.integers(0, 3)) else KEYS)

    def deadline(self, data):
        """A new deadline, or one that was used before: equal ones are where the order shows."""
        if data.draw(st.booleans()):
            return data.draw(st.sampled_from(self.deadlines[-5:]))
        self.deadlines.append(data.draw(times(self.model.now_ms)))
        return self.deadlines[-1]

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8), attempt=ATTEMPTS, data=st.data())
    def grant(self, keys, attempt, data):
        for key in keys:
            self.granted += 1
            self.agree("grant", key, attempt, self.deadline(data), f"item {self.granted}")

    @rule(key=KEYS, attempt=st.sampled_from([0, -1, 2**31]), data=st.data())
    def grant_under_no_attempt(self, key, attempt, data):
        assert self.agree("grant", key, attempt, self.deadline(data), "item") is ValueError

    @rule(first=st.integers(1000, 1500), count=MANY, data=st.data())
    def grant_many(self, first, count, data):
        deadline_ms, stride = self.deadline(data), data.draw(st.sampled_from([0, 1, 7, 64, 4097]))
        for number in range(count):
            self.agree("grant", first + number, 1, deadline_ms + number * stride, f"item of {first + number}")

    @rule(every=st.integers(2, 5), data=st.data())
    def release_many(self, every, data):
        for key in list(self.model._leases)[data.draw(st.integers(0, 1)) :: every]:
            self.agree("release", key, self.model.attempt_of(key))

    @rule(wrong=st.sampled_from([0, 0, 0, -1, 1, 2**31, 2**32]), data=st.data())
    def release(self, wrong, data):
        key = self.key(data)
        self.agree("release", key, self.model.attempt_of(key) + wrong)

    @rule(wrong=st.sampled_from([0, 0, 0, 1, 2**32]), data=st.data())
    def extend(self, wrong, data):
        key = self.key(data)
        self.agree("extend", key, self.model.attempt_of(key) + wrong, self.deadline(data))

    @rule(data=st.data())
    def extend_alike(self, data):
        """Some to one deadline, and then a few to the deadline that they have: those go behind the others."""
        out = list(self.model._leases)[:10]
        deadline_ms = self.deadline(data)
        for key in (*out, *data.draw(st.permutations(out))[:3]):
            self.agree("extend", key, self.model.attempt_of(key), deadline_ms)

    @rule(step_ms=st.integers(-1, 5) | st.integers(0, 70) | st.sampled_from(BOUNDARIES[:40]), limit=LIMITS)
    def expire(self, step_ms, limit):
        self.agree("expire", self.model.now_ms + step_ms, limit)

    @rule(limit=LIMITS, data=st.data())
    def expire_anywhen(self, limit, data):
        self.agree("expire", data.draw(times(self.model.now_ms)), limit)

    @rule(step_ms=st.integers(-1, 1), limit=LIMITS, data=st.data())
    def expire_around_a_deadline(self, step_ms, limit, data):
        self.agree("expire", data.draw(st.sampled_from(self.deadlines[-5:])) + step_ms, limit)

    @rule(steps=FEW)
    def expire_when_told(self, steps):
        for _ in range(steps):
            self.wake()

    def wake(self):
        """The announced time is not late, is not past, and calling then moves the clock or ends a lease."""
        upcoming_ms, earliest_ms = self.compiled.next_deadline_ms(), self.model.next_deadline_ms()
        if earliest_ms == -1:
            assert upcoming_ms == -1
            return
        assert self.model.now_ms <= upcoming_ms <= earliest_ms
        if not self.agree("expire", upcoming_ms):
            assert self.compiled.next_deadline_ms() > upcoming_ms

    @invariant()
    def they_look_the_same(self):
        self.look("capacity", "now_ms")
        earliest_ms = self.model.next_deadline_ms()
        assert self.compiled.next_deadline_ms() <= earliest_ms
        assert (self.compiled.next_deadline_ms() == -1) == (earliest_ms == -1)
        for key in range(21):
            self.agree("attempt_of", key)

    def teardown(self):
        for _ in range(16 * len(self.model)):
            self.wake()
        assert len(self.compiled) == len(self.model) == 0
        assert self.agree("expire", HORIZON_MS - 1) == []


class CreditsMachine(SideBySide):
    @initialize(credit_max=FEW | st.sampled_from([1000, 2**31 - 1]))
    def start(self, credit_max):
        self.compiled, self.model = _fast.Credits(credit_max), models.Credits(credit_max)
        self.tickets = []  # of both, also of those that left
        self.given_out = set()

    def agree_on(self, name, index, *args):
        """Like `agree`, for calls that name a subscriber: each side by its own ticket."""
        mine, theirs = self.tickets[index % len(self.tickets)]
        compiled = outcome(getattr(self.compiled, name), mine, *args)
        assert compiled == outcome(getattr(self.model, name), theirs, *args), f"{name}({mine}, {args})"
        return compiled[1]

    @rule(count=FEW)
    def join(self, count):
        for _ in range(count):
            subscriber = f"subscriber {len(self.tickets)}"
            self.tickets.append((self.compiled.join(subscriber), self.model.join(subscriber)))
            assert self.tickets[-1][0] > 0
            assert self.tickets[-1][0] not in self.given_out
            self.given_out.add(self.tickets[-1][0])

    @precondition(lambda self: self.tickets)
    @rule(index=st.integers(0, 300))
    def leave(self, index):
        self.agree_on("leave", index)

    @precondition(lambda self: self.tickets)
    @rule(index=st.integers(0, 300), count=FEW)
    def leave_together(self, index, count):
        for step in range(count):
            self.agree_on("leave", index + step)

    @precondition(lambda self: self.tickets)
    @rule(index=st.integers(0, 300), credit=st.integers(1, 9) | st.sampled_from([999, 2**31 - 2, 2**31 - 1, 2**31]))
    def grant(self, index, credit):
        self.agree_on("grant", index, credit)

    @precondition(lambda self: self.tickets)
    @rule(index=st.integers(0, 300), count=FEW, credit=st.integers(1, 3))
    def grant_together(self, index, count, credit):
        for step in range(count):
            self.agree_on("grant", index + step, credit)

    @precondition(lambda self: self.given_out)
    @rule(credit=st.integers(-2, 0), index=st.integers(0, 300))
    def offer_no_credit(self, credit, index):
        _, theirs = self.tickets[index % len(self.tickets)]
        if outcome(self.model.credit_of, theirs)[0] == "returned":
            assert self.agree_on("grant", index, credit) is ValueError

    @rule(count=FEW | MANY)
    def pick(self, count):
        for _ in range(count):
            self.agree("pick")

    @rule()
    def offer_none(self):
        assert self.agree("join", None) is TypeError

    @invariant()
    def they_look_the_same(self):
        self.look("credit_max", "ready")
        for index in range(len(self.tickets)):
            self.agree_on("credit_of", index)

    def teardown(self):
        for _ in range(3 * len(self.tickets) + 1):
            self.agree("pick")


TestRing = RingMachine.TestCase
TestDedupe = DedupeMachine.TestCase
TestLeases = LeasesMachine.TestCase
TestCredits = CreditsMachine.TestCase

"""The random programs again, with whole batches among their calls."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.fast import test_against_models as single
from tests.fast.test_against_models import FEW, KEYS, LIMITS, MANY

pytestmark = single.pytestmark
NONE_OR_FEW = st.just(0) | FEW


class RingBatchMachine(single.RingMachine):
    @rule(count=NONE_OR_FEW | MANY)
    def push_batch(self, count):
        items = [f"item {self.pushed + step}" for step in range(1, count + 1)]
        self.pushed += count
        self.agree("push_many", items)

    @rule(limit=NONE_OR_FEW | MANY | st.just(2**40))
    def pop_batch(self, limit):
        self.agree("pop_many", limit)

    @rule(over=st.sampled_from([0, 0, 0, -1, 1]), part=st.integers(1, 3))
    def release_batch(self, over, part):
        self.agree("release", self.model.held // part + over)

    @rule(count=FEW, data=st.data())
    def push_batch_with_none(self, count, data):
        items = ["item"] * count
        items[data.draw(st.integers(0, count - 1))] = None
        assert self.agree("push_many", items) is TypeError


class DedupeBatchMachine(single.DedupeMachine):
    @rule(start=st.integers(0, 500), count=NONE_OR_FEW | MANY, batch=single.DedupeMachine.NUMBERS)
    def claim_batch(self, start, count, batch):
        self.agree("claim_many", self.some(start, count), batch)

    @rule(batch=st.integers(1, 5) | single.DedupeMachine.NUMBERS, first_seq=single.DedupeMachine.NUMBERS)
    def commit_batch(self, batch, first_seq):
        self.agree("commit_batch", batch, first_seq)

    @rule(batch=st.integers(1, 5) | single.DedupeMachine.NUMBERS)
    def abort_batch(self, batch):
        self.agree("abort_batch", batch)

    @rule(start=st.integers(0, 500), count=NONE_OR_FEW | MANY, batch=st.integers(1, 5), first_seq=st.integers(1, 99))
    def claim_and_commit_batch(self, start, count, batch, first_seq):
        self.agree("claim_many", self.some(start, count), batch)
        self.agree("commit_batch", batch, first_seq)


class LeasesBatchMachine(single.LeasesMachine):
    @rule(
        first_key=KEYS | st.integers(2000, 2500),
        count=NONE_OR_FEW | MANY,
        attempts=st.lists(single.ATTEMPTS, min_size=1, max_size=4),
        odd=st.sampled_from([0, 0, 0, 0, 0, 1]),
        data=st.data(),
    )
    def grant_batch(self, first_key, count, attempts, odd, data):
        items = [f"item {self.granted + step}" for step in range(count)]
        self.granted += count
        of_each = [attempts[step % len(attempts)] for step in range(count + odd)]
        self.agree("grant_many", first_key, of_each, self.deadline(data), items)

    @rule(first_key=KEYS, attempt=st.sampled_from([0, 2**31]), count=FEW, data=st.data())
    def grant_batch_under_no_attempt(self, first_key, attempt, count, data):
        attempts = [1] * count + [attempt]
        if first_key < 2**63 - 1 - count:
            assert self.agree("grant_many", first_key, attempts, self.deadline(data), list(attempts)) is ValueError

    @rule(count=NONE_OR_FEW | MANY, wrong=st.lists(st.sampled_from([0, 0, 0, 1, 2**32]), min_size=1), data=st.data())
    def release_batch(self, count, wrong, data):
        keys = list(self.model._leases)[data.draw(st.integers(0, 3)) :][:count]
        keys += data.draw(st.lists(KEYS, max_size=3))
        attempts = [self.model.attempt_of(key) + wrong[step % len(wrong)] for step, key in enumerate(keys)]
        self.agree("release_many", keys, attempts)

    @rule(limit=LIMITS)
    def grant_batch_and_expire(self, limit):
        """Nodes that were just given back are in use again, in another order."""
        self.agree("expire", self.model.now_ms + 1, limit)
        self.agree("grant_many", 3000 + self.granted, [1] * 9, self.model.now_ms, [f"again {n}" for n in range(9)])
        self.granted += 9


class CreditsBatchMachine(single.CreditsMachine):
    @rule(limit=NONE_OR_FEW | MANY)
    def pick_batch(self, limit):
        self.agree("pick_many", limit)


TestRing = RingBatchMachine.TestCase
TestDedupe = DedupeBatchMachine.TestCase
TestLeases = LeasesBatchMachine.TestCase
TestCredits = CreditsBatchMachine.TestCase

"""A batch that is interrupted by a destructor which changes the structure, or the batch, stays whole or says so."""

from functools import partial

import pytest

from tests.fast.outcome import outcome
from tests.fast.test_reentrancy import (
    CREDITS_CALLBACKS,
    LEASES_CALLBACKS,
    MOMENTS,
    RING_CALLBACKS,
    CreditsLedger,
    LeasesLedger,
    RingLedger,
    collecting,
)
from tests.fast.test_reentrancy import _fast as fast

ITEMS = ["the item"] * 5


@pytest.mark.parametrize("waiting", [0, 1, 3, 7, 8, 16, 64, 95, 97, 100])
@pytest.mark.parametrize("callback", RING_CALLBACKS)
def test_a_ring_that_is_changed_while_a_batch_is_pushed_loses_and_doubles_nothing(callback, waiting):
    for moment in MOMENTS[:2]:
        for popped in (0, 5):
            ledger = RingLedger(100)
            ledger.push(waiting + popped)
            ledger.pop(popped)
            push = partial(ledger.ring.push_many, list(ITEMS))
            accepted = collecting(push, moment, lambda ledger=ledger: RING_CALLBACKS[callback](ledger))
            assert 0 <= accepted <= len(ITEMS)
            ledger.check(accepted)


@pytest.mark.parametrize("waiting", [0, 1, 7, 8, 9, 64, 100])
@pytest.mark.parametrize("callback", RING_CALLBACKS)
def test_a_ring_that_is_changed_while_a_batch_is_popped_loses_and_doubles_nothing(callback, waiting):
    for moment in MOMENTS[:2]:
        ledger = RingLedger(100)
        ledger.push(waiting)
        head = []

        def call_back(ledger=ledger, head=head):
            head.extend(ledger.waiting[: ledger.ring.held])  # nothing is held before the batch was popped
            del ledger.waiting[: ledger.ring.held]
            RING_CALLBACKS[callback](ledger)

        popped = collecting(partial(ledger.ring.pop_many, 20), moment, call_back)
        if not head:
            head = ledger.waiting[: len(popped)]
            del ledger.waiting[: len(popped)]
        assert popped == head
        ledger.check(0)


@pytest.mark.parametrize("waiting", [0, 1, 60, 63, 64, 65, 127, 128, 256, 390])
@pytest.mark.parametrize("callback", LEASES_CALLBACKS)
def test_leases_that_are_changed_while_a_batch_is_granted_lose_and_double_nothing(callback, waiting):
    for moment in MOMENTS[:3]:
        ledger = LeasesLedger(400)
        ledger.grant(range(waiting), 100)
        ledger.release(range(0, waiting, 7))
        keys = range(1900, 1970)
        grant = partial(ledger.leases.grant_many, keys[0], [1] * 70, 9_000, [f"item {key}" for key in keys])
        late = set()

        def call_back(ledger=ledger, late=late, keys=keys):
            late |= {key for key in keys if ledger.leases.attempt_of(key)}
            ledger.out |= late
            LEASES_CALLBACKS[callback](ledger)

        room = 400 - len(ledger.out)
        granted = collecting(grant, moment, call_back)
        if late:
            assert granted == len(late) == min(room, len(keys))
        else:
            assert granted == len(keys) or len(ledger.leases) == ledger.leases.capacity
            ledger.out |= set(keys[:granted])
        ledger.check()


@pytest.mark.parametrize("callback", LEASES_CALLBACKS)
def test_leases_that_are_changed_while_a_batch_is_released_lose_and_double_nothing(callback):
    for moment in MOMENTS[:3]:
        ledger = LeasesLedger(400)
        ledger.grant(range(100), 100)
        keys, before = list(range(0, 100, 3)), []

        def call_back(ledger=ledger, before=before):
            before.append(ledger.leases.attempt_of(0))
            if before == [0]:  # the batch was released already
                ledger.out -= set(range(0, 100, 3))
            LEASES_CALLBACKS[callback](ledger)

        released = collecting(partial(ledger.leases.release_many, keys, [1] * len(keys)), moment, call_back)
        assert all(item in (None, f"item {key}") for key, item in zip(keys, released, strict=True))
        if before == [1]:
            gone = {key for key, item in zip(keys, released, strict=True) if item is not None}
            assert gone <= ledger.out
            ledger.out -= gone
        ledger.check()


@pytest.mark.parametrize("present", [1, 3, 4, 16])
@pytest.mark.parametrize("callback", CREDITS_CALLBACKS)
def test_credits_that_are_changed_while_a_batch_is_picked_lose_and_double_nothing(callback, present):
    for limit in (1, present, 4 * present):
        ledger = CreditsLedger(fast.Credits)
        ledger.join(present)
        ledger.grant()
        ledger.grant()
        pick = partial(ledger.credits.pick_many, limit)
        picked = collecting(pick, 1, lambda ledger=ledger: CREDITS_CALLBACKS[callback](ledger))
        assert len(picked) <= min(limit, 2 * present)
        assert None not in picked
        tickets = {subscriber: ticket for ticket, subscriber in ledger.subscribers.items()}
        for subscriber in picked:
            if subscriber in tickets:
                ledger.credit[tickets[subscriber]] -= 1
        ledger.check()


CHANGES = {
    "clears": lambda batch: batch.clear(),
    "shortens": lambda batch: batch.pop(),
    "lengthens": lambda batch: batch.extend([3] * 500),
    "spoils": lambda batch: batch.__setitem__(-1, None),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", ["push_many", "grant_many", "attempts", "release_many", "claim_many"])
def test_a_batch_that_is_changed_while_it_is_read_does_no_harm(call, change):
    """The answer is for the batch as it was or as it is, or the batch is refused and nothing was done."""
    for moment in MOMENTS[:3]:
        ring, leases, dedupe = fast.Ring(1000), fast.Leases(1000), fast.Dedupe(1000)
        leases.grant_many(1000, [1] * 10, 5, list(range(10)))
        batch = [b"%d" % number for number in range(70)] if call == "claim_many" else list(range(1000, 1070))
        if call == "attempts":
            batch = [1] * 70
        work = {
            "push_many": partial(ring.push_many, batch),
            "grant_many": partial(leases.grant_many, 2000, [1] * 70, 9, batch),
            "attempts": partial(leases.grant_many, 2000, batch, 9, ["item"] * 70),
            "release_many": partial(leases.release_many, batch, [1] * 70),
            "claim_many": partial(dedupe.claim_many, batch, 1),
        }[call]
        what, answer = collecting(partial(outcome, work), moment, lambda batch=batch: CHANGES[change](batch))
        if what == "raised":
            assert answer in (TypeError, ValueError)
            assert (len(ring), len(leases), len(dedupe)) == (0, 10, 0)
        elif call == "release_many":
            assert answer == [*range(10), *[None] * 60]
            assert len(leases) == 0
        else:
            done = {"push_many": len(ring), "claim_many": dedupe.in_flight}.get(call, len(leases) - 10)
            assert done == (len(answer) if call == "claim_many" else answer)
        assert None not in ring.pop_many(1000)
        assert all(item is not None for _, _, item in leases.expire(100))

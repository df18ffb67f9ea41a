"""The life of an event through all four structures, between the wire and the acknowledgement, as work to be timed.

Each cycle is written once, for the compiled structures and for their models. Two thousand leases are
out all the time: what is acknowledged is what was delivered two thousand events ago.
"""

from collections.abc import Callable
from typing import Any

OPERATIONS = 20_000
BATCH = 100
LIVE_LEASES = 2_000
LEASE_MS = 30_000
SUBSCRIBERS = 16
BATCH_SUBSCRIBERS = 20
CAPACITY = 10_000
CREDIT_MAX = 100
assert OPERATIONS % BATCH == LIVE_LEASES % BATCH == BATCH % BATCH_SUBSCRIBERS == 0

# A contender keeps its structure from round to round. It is given the number of the round, prepares what the round
# needs, and answers with the work that is timed.
Work = Callable[[], None]
Contender = Callable[[int], Work]


def fresh_identities(number: int) -> list[bytes]:
    """New objects each time: an identity comes off the wire, and nobody has computed its hash yet."""
    first = number * OPERATIONS
    return [b"stream:agents/Jen/inbox\0e-%06d" % event for event in range(first, first + OPERATIONS)]


def event_numbers(number: int) -> range:
    """The events of a round; they go on where the round before left off, and so does the clock."""
    first = LIVE_LEASES + number * OPERATIONS
    return range(first, first + OPERATIONS)


def cycle_of(structures: Any, with_clock: bool = False) -> Contender:
    """One event at a time: the quiet broker, whose batches have one event each."""
    dedupe, ring = structures.Dedupe(CAPACITY), structures.Ring(CAPACITY)
    leases, credit = structures.Leases(CAPACITY), structures.Credits(CREDIT_MAX)
    tickets = [credit.join(subscriber) for subscriber in range(SUBSCRIBERS)]
    for ticket in tickets:
        credit.grant(ticket, 10)
    for event in range(LIVE_LEASES):
        ring.push(event)
        leases.grant(event, 1, event + LEASE_MS, ring.pop())

    def prepare(number: int) -> Work:
        def work() -> None:
            claim, commit, expire = dedupe.claim, dedupe.commit, leases.expire
            push, pop, give_up = ring.push, ring.pop, ring.release
            pick, grant_credit = credit.pick, credit.grant
            grant, release = leases.grant, leases.release
            for event, identity in zip(events, identities, strict=True):
                claim(identity, event)
                commit(identity, event)
                push(identity)
                subscriber = pick()
                grant(event, 1, event + LEASE_MS, pop())
                release(event - LIVE_LEASES, 1)
                give_up()
                grant_credit(tickets[subscriber], 1)
            if with_clock:
                expire(events[-1])

        events, identities = event_numbers(number), fresh_identities(number)
        return work

    return prepare


def cycle_with_clock_of(structures: Any) -> Contender:
    """The leases are also told the time after each round: a heap that deletes lazily pays for every lease then."""
    return cycle_of(structures, with_clock=True)


def batch_cycle_of(structures: Any) -> Contender:
    """A hundred events at a time: the busy broker.

    A batch is claimed when it arrives and committed as one group; the pump finds everybody whose turn it
    is, pops as many events and leases them; each of the subscribers acknowledges its share with one array,
    and grants as much credit again. By the turns, each gets the same share of every batch.
    """
    dedupe, ring = structures.Dedupe(CAPACITY), structures.Ring(CAPACITY)
    leases, credit = structures.Leases(CAPACITY), structures.Credits(CREDIT_MAX)
    tickets = [credit.join(subscriber) for subscriber in range(BATCH_SUBSCRIBERS)]
    for ticket in tickets:
        credit.grant(ticket, 10)
    first_attempts, share_attempts = [1] * BATCH, [1] * (BATCH // BATCH_SUBSCRIBERS)
    for first in range(0, LIVE_LEASES, BATCH):
        ring.push_many(list(range(first, first + BATCH)))
        leases.grant_many(first, first_attempts, first + LEASE_MS, ring.pop_many(BATCH))

    def prepare(number: int) -> Work:
        def work() -> None:
            for first, arrived, acknowledged in batches:
                dedupe.claim_many(arrived, first)
                dedupe.commit_batch(first, first)
                ring.push_many(arrived)
                subscribers = credit.pick_many(len(ring))
                leases.grant_many(first, first_attempts, first + LEASE_MS, ring.pop_many(len(subscribers)))
                for ticket, keys in zip(tickets, acknowledged, strict=True):
                    done = leases.release_many(keys, share_attempts)
                    ring.release(len(done))
                    credit.grant(ticket, len(done))

        identities, batches = fresh_identities(number), []
        for index, first in enumerate(event_numbers(number)[::BATCH]):
            oldest = first - LIVE_LEASES
            shares = [
                list(range(oldest + subscriber, oldest + BATCH, BATCH_SUBSCRIBERS))
                for subscriber in range(BATCH_SUBSCRIBERS)
            ]
            batches.append((first, identities[index * BATCH : (index + 1) * BATCH], shares))
        return work

    return prepare

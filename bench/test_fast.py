"""What compiling was worth: each structure, and the life of an event through all four of them.

Three contenders do the same work in loops of the same shape: the compiled structure, its model, and
the obvious choice from the standard library written out in the loop, with the same bounds and the
same checks. The last one calls nothing that it need not call, so it is the hardest to beat.

The gates at the end are ratios within one run, from rounds in turns, so that a busy machine slows
everybody alike; they are ordinary tests. `pytest bench --benchmark-only` gives the figures.
"""

import gc
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

import pytest

import _fast
from bench.cycles import (
    CAPACITY,
    CREDIT_MAX,
    LEASE_MS,
    LIVE_LEASES,
    OPERATIONS,
    SUBSCRIBERS,
    Contender,
    Work,
    batch_cycle_of,
    cycle_of,
    cycle_with_clock_of,
    event_numbers,
    fresh_identities,
)
from bench.histograms import histogram_of, histogram_of_stdlib
from tests.fast import models

ROUNDS = 9
BATCH_CYCLE_RATIO_MIN = 8.0  # around 10 is what was measured
CYCLE_RATIO_MIN = 5.0  # 5.3 to 6.0: one event at a time, nine calls of Python take most of what compiling saves
STRUCTURE_RATIO_MIN = 1.0


# Ring: half full; one in, one out, and its place given up.


def ring_of(structures: Any) -> Contender:
    ring = structures.Ring(CAPACITY)
    for event in range(CAPACITY // 2):
        ring.push(event)

    def prepare(number: int) -> Work:
        def work() -> None:
            push, pop, release = ring.push, ring.pop, ring.release
            for event in events:
                push(event)
                pop()
                release()

        events = list(event_numbers(number))
        return work

    return prepare


def ring_of_stdlib() -> Contender:
    waiting: deque[Any] = deque(range(CAPACITY // 2))

    def prepare(number: int) -> Work:
        def work() -> None:
            append, popleft = waiting.append, waiting.popleft
            held = 0
            for event in events:
                if event is None:
                    raise TypeError
                if len(waiting) + held < CAPACITY:
                    append(event)
                if waiting:
                    popleft()
                    held += 1
                if not held:
                    raise ValueError
                held -= 1

        events = list(event_numbers(number))
        return work

    return prepare


# Dedupe: at capacity. Every identity is new, evicts another and is committed; every eighth comes again at once.


def dedupe_of(structures: Any) -> Contender:
    dedupe = structures.Dedupe(CAPACITY)

    def prepare(number: int) -> Work:
        def work() -> None:
            claim, commit = dedupe.claim, dedupe.commit
            for event, identity in enumerate(identities, 1):
                claim(identity, event)
                commit(identity, event)
                if not event & 7:
                    claim(identity, event)

        identities = fresh_identities(number)
        return work

    return prepare


def dedupe_of_stdlib() -> Contender:
    flying: dict[bytes, int] = {}
    committed: OrderedDict[bytes, int] = OrderedDict()

    def prepare(number: int) -> Work:
        def work() -> None:
            recall, move_to_end, popitem = committed.get, committed.move_to_end, committed.popitem
            for event, identity in enumerate(identities, 1):
                if event < 1:
                    raise ValueError
                if recall(identity) is not None:
                    move_to_end(identity)
                elif identity not in flying:
                    if len(flying) + len(committed) >= CAPACITY:
                        popitem(last=False)
                    flying[identity] = event
                if event < 1:
                    raise ValueError
                del flying[identity]
                committed[identity] = event
                if not event & 7:
                    if event < 1:
                        raise ValueError
                    if recall(identity) is not None:
                        move_to_end(identity)

        identities = fresh_identities(number)
        return work

    return prepare


# Leases: two thousand are out. One more is granted, the oldest released; the clock looks in every 64 events.


def leases_of(structures: Any) -> Contender:
    leases = structures.Leases(CAPACITY)
    for event in range(LIVE_LEASES):
        leases.grant(event, 1, event + LEASE_MS, event)

    def prepare(number: int) -> Work:
        def work() -> None:
            grant, release, expire = leases.grant, leases.release, leases.expire
            for event in events:
                grant(event, 1, event + LEASE_MS, event)
                release(event - LIVE_LEASES, 1)
                if not event & 63:
                    expire(event)

        events = event_numbers(number)
        return work

    return prepare


def leases_of_stdlib() -> Contender:
    out = {event: (1, event, event) for event in range(LIVE_LEASES)}
    heap = [(event + LEASE_MS, event, event) for event in range(LIVE_LEASES)]

    def prepare(number: int) -> Work:
        def work() -> None:
            find, heappush, heappop = out.get, heapq.heappush, heapq.heappop
            for event in events:
                deadline_ms = event + LEASE_MS
                if event is None or event in out or not 0 <= deadline_ms < 2**48:
                    raise ValueError
                if len(out) < CAPACITY:
                    out[event] = (1, event, event)
                    heappush(heap, (deadline_ms, event, event))
                lease = find(event - LIVE_LEASES)
                if lease is not None and lease[0] == 1:
                    del out[event - LIVE_LEASES]
                if not event & 63:
                    due = []
                    while heap and heap[0][0] <= event:
                        _, order, key = heappop(heap)
                        lease = find(key)
                        if lease is not None and lease[1] == order:
                            due.append((key, lease[0], lease[2]))
                            del out[key]

        events = event_numbers(number)
        return work

    return prepare


# Credits: whoever is picked gets its credit back; a hundred more have none and wait.


def credits_of(structures: Any) -> Contender:
    credit = structures.Credits(CREDIT_MAX)
    tickets = [credit.join(subscriber) for subscriber in range(SUBSCRIBERS)]
    for ticket in tickets:
        credit.grant(ticket, 10)
    for subscriber in range(SUBSCRIBERS, SUBSCRIBERS + 100):
        credit.join(subscriber)

    def prepare(number: int) -> Work:
        def work() -> None:
            pick, grant = credit.pick, credit.grant
            for _ in events:
                grant(tickets[pick()], 1)

        events = event_numbers(number)
        return work

    return prepare


def credits_of_stdlib() -> Contender:
    subscribers = dict(enumerate(range(SUBSCRIBERS + 100), 1))
    tickets = list(subscribers)
    credit = {ticket: 10 if subscriber < SUBSCRIBERS else 0 for ticket, subscriber in subscribers.items()}
    line = deque(ticket for ticket in tickets if credit[ticket])

    def prepare(number: int) -> Work:
        def work() -> None:
            append, popleft = line.append, line.popleft
            for _ in events:
                if line:
                    ticket = popleft()
                    left = credit[ticket] - 1
                    credit[ticket] = left
                    if left:
                        append(ticket)
                    ticket = tickets[subscribers[ticket]]
                    left = credit[ticket]
                    if left + 1 > CREDIT_MAX:
                        raise OverflowError
                    credit[ticket] = left + 1
                    if not left:
                        append(ticket)

        events = event_numbers(number)
        return work

    return prepare


CONTENDERS: dict[str, dict[str, Callable[[], Contender]]] = {
    structure: {
        "compiled": lambda make=make: make(_fast),
        "model": lambda make=make: make(models),
    }
    | stdlib
    for structure, make, stdlib in (
        ("ring", ring_of, {"stdlib": ring_of_stdlib}),
        ("dedupe", dedupe_of, {"stdlib": dedupe_of_stdlib}),
        ("leases", leases_of, {"stdlib": leases_of_stdlib}),
        ("credits", credits_of, {"stdlib": credits_of_stdlib}),
        ("histogram", histogram_of, {"stdlib": histogram_of_stdlib}),
        ("batch cycle", batch_cycle_of, {}),
        ("cycle", cycle_of, {}),
        ("cycle with clock", cycle_with_clock_of, {}),
    )
}


@pytest.mark.parametrize(
    ("structure", "contender"), [(structure, name) for structure, each in CONTENDERS.items() for name in each]
)
def test_speed_of_each_contender(benchmark: Any, structure: str, contender: str) -> None:
    prepare = CONTENDERS[structure][contender]()
    numbers = iter(range(1_000))
    benchmark.group = structure
    benchmark.pedantic(
        lambda work: work(), setup=lambda: ((prepare(next(numbers)),), {}), rounds=25, warmup_rounds=2, iterations=1
    )
    benchmark.extra_info["operations_per_round"] = OPERATIONS
    if not benchmark.disabled:
        benchmark.extra_info["per_second"] = round(OPERATIONS / benchmark.stats.stats.min)


def best_ns(contenders: dict[str, Callable[[], Contender]]) -> dict[str, float]:
    """Nanoseconds for one operation in the best round of each; the rounds are in turns, without the collector."""
    prepared = {name: make() for name, make in contenders.items()}
    rounds: dict[str, list[int]] = {name: [] for name in contenders}
    for number in range(ROUNDS + 1):
        for name, prepare in prepared.items():
            work = prepare(number)
            gc.collect()
            gc.disable()
            try:
                start = perf_counter_ns()
                work()
                rounds[name].append(perf_counter_ns() - start)
            finally:
                gc.enable()
    return {name: min(times[1:]) / OPERATIONS for name, times in rounds.items()}


def ratio(structure: str, slower: str) -> float:
    """How many times as fast as another contender the compiled one is."""
    best = best_ns({name: CONTENDERS[structure][name] for name in ("compiled", slower)})
    found = best[slower] / best["compiled"]
    print(
        f"{structure}: {best['compiled']:.0f} ns compiled ({1e9 / best['compiled']:,.0f} a second), "
        f"{best[slower]:.0f} ns {slower}: {found:.2f} times as fast"
    )
    return found


@pytest.mark.parametrize("make", [batch_cycle_of, cycle_of])
def test_both_sides_of_a_cycle_do_the_same_work(make: Callable[[Any], Contender]) -> None:
    sides = []
    for module in (_fast, models):
        made: dict[str, Any] = {}

        def keep(name: str, bound: int, module: Any = module, made: dict[str, Any] = made) -> Any:
            made[name] = getattr(module, name)(bound)
            return made[name]

        names = ("Dedupe", "Ring", "Leases", "Credits")
        prepare = make(SimpleNamespace(**{name: partial(keep, name) for name in names}))
        for number in range(2):
            prepare(number)()
        dedupe, ring, leases, credit = (made[name] for name in names)
        newest = [dedupe.find(identity) > 0 for identity in fresh_identities(1)]
        attempts = [leases.attempt_of(event) for event in event_numbers(1)]
        held, line = ring.held, credit.pick_many(10_000)
        sides.append((len(dedupe), dedupe.in_flight, newest, len(ring), held, attempts, len(leases), line))
    assert sides[0] == sides[1]
    assert sides[0][:2] == (CAPACITY, 0)
    assert sides[0][4] == sides[0][6] == LIVE_LEASES


release_build = pytest.mark.skipif(_fast.DEBUG_BUILD, reason="a debug build is not built for speed")


@release_build
@pytest.mark.parametrize("structure", ["ring", "dedupe", "leases", "credits", "histogram"])
def test_a_compiled_structure_is_no_slower_than_the_standard_library(structure: str) -> None:
    assert ratio(structure, "stdlib") >= STRUCTURE_RATIO_MIN


@release_build
def test_the_compiled_cycle_in_batches_is_eight_times_as_fast_as_the_models() -> None:
    assert ratio("batch cycle", "model") >= BATCH_CYCLE_RATIO_MIN


@release_build
def test_the_compiled_cycle_one_event_at_a_time_is_five_times_as_fast_as_the_models() -> None:
    assert ratio("cycle", "model") >= CYCLE_RATIO_MIN

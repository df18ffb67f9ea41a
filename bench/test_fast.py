"""What compiling was worth: each structure, and the life of an event through all four of them.

Three contenders do the same work in loops of the same shape: the compiled structure, its model, and
the obvious choice from the standard library written out in the loop, with the same bounds and the
same checks. For the last one nothing is called that need not be, so it is the harder one to beat.

The gates at the end are ratios within one run, from rounds in turns, so that a busy machine slows
everybody alike; they are ordinary tests. `pytest bench --benchmark-only` gives the figures.
"""

import gc
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Protocol

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import _fast
from tests.fast import models

Work = Callable[[], None]
OPERATIONS = 20_000
LIVE_LEASES = 2_000
LEASE_MS = 30_000
ROUNDS = 9


class Structures(Protocol):
    """The four classes: of `_fast`, or of the models."""

    Ring: Any
    Dedupe: Any
    Leases: Any
    Credits: Any


def fresh_identities(start: int) -> list[bytes]:
    """New objects each time: an identity comes off the wire, and its hash has not been computed yet."""
    return [b"stream:agents/Jen/inbox\0e-%06d" % number for number in range(start, start + OPERATIONS)]


# Ring: half full, one in and one out.


def ring_calls(structures: Structures) -> Work:
    ring = structures.Ring(1_000)
    items = [object() for _ in range(OPERATIONS)]
    for item in items[:500]:
        ring.push(item)

    def work() -> None:
        push, pop, release = ring.push, ring.pop, ring.release
        for item in items:
            push(item)
            if pop() is not None:
                release()

    return work


def ring_stdlib() -> Work:
    capacity = 1_000
    waiting: deque[object] = deque()
    items = [object() for _ in range(OPERATIONS)]
    waiting.extend(items[:500])

    def work() -> None:
        held = 0
        append, popleft = waiting.append, waiting.popleft
        for item in items:
            if item is None:
                raise TypeError
            if len(waiting) + held < capacity:
                append(item)
            if waiting:
                popped = popleft()
                held += 1
                if popped is not None:
                    if not held:
                        raise ValueError
                    held -= 1

    return work


# Dedupe: at capacity, every claim is new and evicts; one in eight comes again at once.


def dedupe_calls(structures: Structures) -> Work:
    dedupe = structures.Dedupe(10_000)
    rounds = 0

    def work() -> None:
        nonlocal rounds
        rounds += 1
        claim, commit = dedupe.claim, dedupe.commit
        for number, identity in enumerate(fresh_identities(rounds * OPERATIONS), 1):
            if claim(identity, number) == 0:
                commit(identity, number)
            if not number & 7:
                claim(identity, number)

    return work


def dedupe_stdlib() -> Work:
    capacity = 10_000
    in_flight: dict[bytes, int] = {}
    committed: OrderedDict[bytes, int] = OrderedDict()
    rounds = 0

    def claimed(identity: bytes, batch: int) -> int:
        """The claim that comes again; the common one is written out below."""
        if batch < 1:
            raise ValueError
        if identity in committed:
            committed.move_to_end(identity)
            return committed[identity]
        return -in_flight[identity]

    def work() -> None:
        nonlocal rounds
        rounds += 1
        move_to_end, popitem, depart = committed.move_to_end, committed.popitem, in_flight.pop
        for number, identity in enumerate(fresh_identities(rounds * OPERATIONS), 1):
            if number < 1:
                raise ValueError
            if identity in committed:
                move_to_end(identity)
            elif identity not in in_flight:
                if len(in_flight) + len(committed) >= capacity:
                    if not committed:
                        raise OverflowError
                    popitem(last=False)
                in_flight[identity] = number
                if number < 1:
                    raise ValueError
                depart(identity)
                committed[identity] = number
            if not number & 7:
                claimed(identity, number)

    return work

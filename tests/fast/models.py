"""The structures of `_fast` in plain Python: their specification, and the measure of their speed.

Each model has the interface of its compiled twin and says in the shortest honest way what that has
to do. One body of tests runs on both, random programs compare the two call by call, and
`bench/test_fast.py` asks what compiling was worth, so a model is written to be plain and not to be
slow. What the interfaces leave open (how much storage is allocated, what a ticket looks like, how
early the next deadline is announced) a model answers with the simplest thing that is allowed.
"""

import heapq
from collections import OrderedDict, deque
from typing import Generic, TypeVar

from tests.fast.counters_model import Counters
from tests.fast.head_model import bytes_owed, plain_request
from tests.fast.histogram_model import Histogram
from tests.fast.nesting_model import deeper_than

__all__ = [
    "Counters",
    "Credits",
    "Dedupe",
    "Histogram",
    "Leases",
    "Ring",
    "bytes_owed",
    "deeper_than",
    "plain_request",
]

T = TypeVar("T")


class Ring(Generic[T]):
    """A deque, and a count of the items that were popped and may still come back."""

    def __init__(self, capacity: int) -> None:
        if not 1 <= capacity <= 2**31 - 1:
            raise ValueError(f"capacity must be 1 .. 2**31 - 1, not {capacity}")
        self.capacity = capacity
        self.held = 0
        self._waiting: deque[T] = deque()

    @property
    def allocated(self) -> int:
        """The least that is allowed: what waits."""
        return len(self._waiting)

    def push(self, item: T) -> bool:
        """Append at the tail unless every place is taken or reserved."""
        if item is None:
            raise TypeError("an item cannot be None")
        if len(self._waiting) + self.held == self.capacity:
            return False
        self._waiting.append(item)
        return True

    def pop(self) -> T | None:
        """Take the head and reserve its place."""
        if not self._waiting:
            return None
        self.held += 1
        return self._waiting.popleft()

    def push_many(self, items: list[T]) -> int:
        """Append the first ones, as many as there are places."""
        if any(item is None for item in items):
            raise TypeError("an item cannot be None")
        accepted = items[: self.capacity - len(self._waiting) - self.held]
        self._waiting.extend(accepted)
        return len(accepted)

    def pop_many(self, limit: int) -> list[T]:
        """Take some from the head and reserve their places."""
        if limit < 0:
            raise ValueError(f"limit is at least 0, not {limit}")
        items = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        self.held += len(items)
        return items

    def release(self, count: int = 1) -> None:
        """Give up reserved places."""
        if not 0 <= count <= self.held:
            raise ValueError(f"{count} places cannot be given up of {self.held}")
        self.held -= count

    def requeue(self, item: T) -> None:
        """Turn a reserved place into one at the tail."""
        if item is None:
            raise TypeError("an item cannot be None")
        self.release()
        self._waiting.append(item)

    def restore(self, item: T) -> None:
        """Turn a reserved place into one at the head."""
        if item is None:
            raise TypeError("an item cannot be None")
        self.release()
        self._waiting.appendleft(item)

    def compact(self) -> None:
        """Nothing to do: a deque gives its blocks back by itself."""

    def __len__(self) -> int:
        return len(self._waiting)


class Dedupe:
    """Two dictionaries: what is in flight, and what is committed, least recently used first."""

    def __init__(self, capacity: int, key: bytes | None = None) -> None:
        if not 1 <= capacity <= 2**30:
            raise ValueError(f"capacity must be 1 .. 2**30, not {capacity}")
        if key is not None and len(key) != 16:
            raise ValueError(f"the key must have 16 bytes, not {len(key)}")
        self.capacity = capacity
        self.evictions = 0
        self._in_flight: dict[bytes, int] = {}
        self._committed: OrderedDict[bytes, int] = OrderedDict()

    @property
    def in_flight(self) -> int:
        """How many batches are waited for."""
        return len(self._in_flight)

    def claim(self, identity: bytes, batch: int) -> int:
        """Answer for a known identity; put an unknown one in flight."""
        if batch < 1:
            raise ValueError(f"a batch is at least 1, not {batch}")
        seq = self._committed.get(identity)
        if seq is not None:
            self._committed.move_to_end(identity)
            return seq
        first = self._in_flight.get(identity)
        if first is not None:
            return -first
        if not self._make_room():
            raise OverflowError("every entry is in flight")
        self._in_flight[identity] = batch
        return 0

    def claim_many(self, identities: list[bytes], batch: int) -> list[int]:
        """Claim one after the other, until one finds no room."""
        if batch < 1:
            raise ValueError(f"a batch is at least 1, not {batch}")
        answers: list[int] = []
        try:
            for identity in identities:
                answers.append(self.claim(identity, batch))  # noqa: PERF401 - what was answered before it raised counts
        except OverflowError:
            pass
        return answers

    def find(self, identity: bytes) -> int:
        """Answer like `claim`, without a trace."""
        return self._committed.get(identity, 0) or -self._in_flight.get(identity, 0)

    def commit(self, identity: bytes, seq: int) -> None:
        """Move an identity from flight to the most recently used end."""
        if seq < 1:
            raise ValueError(f"a sequence is at least 1, not {seq}")
        del self._in_flight[identity]
        self._committed[identity] = seq

    def commit_batch(self, batch: int, first_seq: int) -> int:
        """Commit what is in flight with a batch, one sequence after the other."""
        if batch < 1 or first_seq < 1:
            raise ValueError(f"a batch and a sequence are at least 1, not {batch} and {first_seq}")
        identities = self._flying_with(batch)
        if first_seq + len(identities) - 1 > 2**63 - 1:
            raise OverflowError("the last sequence is wider than 64 bits")
        for seq, identity in enumerate(identities, first_seq):
            self.commit(identity, seq)
        return len(identities)

    def abort_batch(self, batch: int) -> int:
        """Forget what is in flight with a batch."""
        if batch < 1:
            raise ValueError(f"a batch is at least 1, not {batch}")
        identities = self._flying_with(batch)
        for identity in identities:
            self.abort(identity)
        return len(identities)

    def _flying_with(self, batch: int) -> list[bytes]:
        return [identity for identity, its_batch in self._in_flight.items() if its_batch == batch]

    def abort(self, identity: bytes) -> None:
        """Forget an identity in flight."""
        del self._in_flight[identity]

    def remember(self, identity: bytes, seq: int) -> None:
        """Record a committed identity if it is unknown and there is room."""
        if seq < 1:
            raise ValueError(f"a sequence is at least 1, not {seq}")
        if identity in self._committed:
            self._committed.move_to_end(identity)
        elif identity not in self._in_flight and self._make_room():
            self._committed[identity] = seq

    def _make_room(self) -> bool:
        if len(self) < self.capacity:
            return True
        if not self._committed:
            return False
        self._committed.popitem(last=False)
        self.evictions += 1
        return True

    def __len__(self) -> int:
        return len(self._in_flight) + len(self._committed)


class Leases(Generic[T]):
    """A dictionary of (attempt, order, item), and a heap of (deadline, order, key) cleaned up late.

    Every grant and every extension takes a new order number. A heap entry whose order is not the
    one in the dictionary is left over from a lease that was released or extended.
    """

    def __init__(self, capacity: int, now_ms: int = 0) -> None:
        if not 1 <= capacity <= 2**30:
            raise ValueError(f"capacity must be 1 .. 2**30, not {capacity}")
        if not 0 <= now_ms < 2**48:
            raise ValueError(f"now_ms must be 0 .. 2**48 - 1, not {now_ms}")
        self.capacity = capacity
        self.now_ms = now_ms
        self._leases: dict[int, tuple[int, int, T]] = {}
        self._heap: list[tuple[int, int, int]] = []
        self._orders = 0

    def grant(self, key: int, attempt: int, deadline_ms: int, item: T) -> bool:
        """Lease an item unless every lease is out."""
        if item is None:
            raise TypeError("an item cannot be None")
        if not 1 <= attempt <= 2**31 - 1:
            raise ValueError(f"attempt must be 1 .. 2**31 - 1, not {attempt}")
        if not 0 <= deadline_ms < 2**48:
            raise ValueError(f"deadline_ms must be 0 .. 2**48 - 1, not {deadline_ms}")
        if key in self._leases:
            raise ValueError(f"{key} is leased already")
        if len(self._leases) == self.capacity:
            return False
        self._set(key, attempt, deadline_ms, item)
        return True

    def grant_many(self, first_key: int, attempts: list[int], deadline_ms: int, items: list[T]) -> int:
        """Lease the first items, as many as there are leases left."""
        keys = range(first_key, first_key + len(items))
        if not 0 <= deadline_ms < 2**48:
            raise ValueError(f"deadline_ms must be 0 .. 2**48 - 1, not {deadline_ms}")
        if keys.stop > 2**63 and items:
            raise OverflowError("the last key is wider than 64 bits")
        if len(attempts) != len(items):
            raise ValueError(f"{len(items)} items, but {len(attempts)} attempts")
        if any(item is None for item in items):
            raise TypeError("an item cannot be None")
        if attempts and not 1 <= min(attempts) <= max(attempts) <= 2**31 - 1:
            raise ValueError("attempts must be 1 .. 2**31 - 1")
        if not self._leases.keys().isdisjoint(keys):
            raise ValueError("one of the keys is leased already")
        granted = min(len(items), self.capacity - len(self._leases))
        for key, attempt, item in zip(keys[:granted], attempts, items, strict=False):
            self._set(key, attempt, deadline_ms, item)
        return granted

    def release(self, key: int, attempt: int) -> T | None:
        """End a lease for its holder."""
        lease = self._leases.get(key)
        if lease is None or lease[0] != attempt:
            return None
        del self._leases[key]
        return lease[2]

    def release_many(self, keys: list[int], attempts: list[int]) -> list[T | None]:
        """End leases for their holders."""
        if len(keys) != len(attempts):
            raise ValueError(f"{len(keys)} keys, but {len(attempts)} attempts")
        return [self.release(key, attempt) for key, attempt in zip(keys, attempts, strict=True)]

    def extend(self, key: int, attempt: int, deadline_ms: int) -> bool:
        """Move a deadline for the lease's holder."""
        if not 0 <= deadline_ms < 2**48:
            raise ValueError(f"deadline_ms must be 0 .. 2**48 - 1, not {deadline_ms}")
        lease = self._leases.get(key)
        if lease is None or lease[0] != attempt:
            return False
        self._set(key, attempt, deadline_ms, lease[2])
        return True

    def attempt_of(self, key: int) -> int:
        """Who holds a key, if anybody does."""
        lease = self._leases.get(key)
        return 0 if lease is None else lease[0]

    def expire(self, now_ms: int, limit: int = 2**62) -> list[tuple[int, int, T]]:
        """End what is due, in order."""
        if limit < 1:
            raise ValueError(f"limit is at least 1, not {limit}")
        if now_ms >= 2**48:
            raise ValueError(f"now_ms must be below 2**48, not {now_ms}")
        now_ms = max(now_ms, self.now_ms)
        due: list[tuple[int, int, T]] = []
        while -1 != self.next_deadline_ms() <= now_ms:
            deadline_ms, _, key = heapq.heappop(self._heap)
            attempt, _, item = self._leases.pop(key)
            due.append((key, attempt, item))
            if len(due) == limit:
                self.now_ms = deadline_ms
                return due
        self.now_ms = now_ms
        return due

    def next_deadline_ms(self) -> int:
        """The earliest deadline, exactly."""
        while self._heap:
            deadline_ms, order, key = self._heap[0]
            lease = self._leases.get(key)
            if lease is not None and lease[1] == order:
                return deadline_ms
            heapq.heappop(self._heap)
        return -1

    def _set(self, key: int, attempt: int, deadline_ms: int, item: T) -> None:
        self._orders += 1
        self._leases[key] = (attempt, self._orders, item)
        heapq.heappush(self._heap, (max(deadline_ms, self.now_ms), self._orders, key))

    def __len__(self) -> int:
        return len(self._leases)


class Credits(Generic[T]):
    """A dictionary of subscribers, and the line: an ordered dictionary of those that have credit."""

    def __init__(self, credit_max: int) -> None:
        if not 1 <= credit_max <= 2**31 - 1:
            raise ValueError(f"credit_max must be 1 .. 2**31 - 1, not {credit_max}")
        self.credit_max = credit_max
        self._tickets = 0
        self._subscribers: dict[int, T] = {}
        self._line: OrderedDict[int, int] = OrderedDict()

    @property
    def ready(self) -> int:
        """How long the line is."""
        return len(self._line)

    def join(self, subscriber: T) -> int:
        """Add a subscriber under a new ticket."""
        if subscriber is None:
            raise TypeError("a subscriber cannot be None")
        self._tickets += 1
        self._subscribers[self._tickets] = subscriber
        return self._tickets

    def leave(self, ticket: int) -> None:
        """Remove a subscriber, from the line as well."""
        self._line.pop(ticket, None)
        del self._subscribers[ticket]

    def grant(self, ticket: int, credit: int) -> int:
        """Add credit where the subscriber stands, or at the back of the line."""
        if credit < 1:
            raise ValueError(f"a grant is at least 1, not {credit}")
        total = self.credit_of(ticket) + credit
        if total > self.credit_max:
            raise OverflowError(f"{total} is more than {self.credit_max}")
        self._line[ticket] = total
        return total

    def pick(self) -> T | None:
        """Take one credit from the front of the line, and send what is left to the back."""
        if not self._line:
            return None
        ticket, credit = self._line.popitem(last=False)
        if credit > 1:
            self._line[ticket] = credit - 1
        return self._subscribers[ticket]

    def pick_many(self, limit: int) -> list[T]:
        """Pick while there is credit."""
        if limit < 0:
            raise ValueError(f"limit is at least 0, not {limit}")
        picked: list[T] = []
        while len(picked) < limit and (subscriber := self.pick()) is not None:
            picked.append(subscriber)
        return picked

    def credit_of(self, ticket: int) -> int:
        """The credit in the line; zero outside it."""
        if ticket not in self._subscribers:
            raise KeyError(ticket)
        return self._line.get(ticket, 0)

    def __len__(self) -> int:
        return len(self._subscribers)

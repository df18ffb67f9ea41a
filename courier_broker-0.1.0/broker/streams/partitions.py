"""Partition keys: events of one key are delivered in order, one in flight.

Each key has at most one event that may go out, its front. Another event of the key that reaches the head
of the ring is set aside behind it, and keeps its place in the ring reserved. When the front has come to its
end (acknowledged or dead), the next one takes over. A front that goes back to the ring (nack, expiry, a
consumer that left) stays the front, so that nothing of its key overtakes it.
"""

from collections import deque

from broker.streams.entry import Entry


class Partitions:
    """The keys of one stream that have an event out. A key without one costs nothing."""

    __slots__ = ("_aside", "_fronts")

    def __init__(self) -> None:
        self._fronts: dict[str, Entry] = {}
        self._aside: dict[str, deque[Entry]] = {}

    def admit(self, entry: Entry) -> bool:
        """Whether an event with a key may go out now; if not, it is set aside here."""
        assert entry.partition is not None
        front = self._fronts.setdefault(entry.partition, entry)
        if front is entry:
            return True
        self._aside.setdefault(entry.partition, deque()).append(entry)
        return False

    def settle(self, entry: Entry) -> Entry | None:
        """The front of a key has come to its end; what takes over and may go out now."""
        assert entry.partition is not None
        waiting = self._aside.get(entry.partition)
        if waiting is None:
            del self._fronts[entry.partition]
            return None
        following = self._fronts[entry.partition] = waiting.popleft()
        if not waiting:
            del self._aside[entry.partition]
        return following

    @property
    def set_aside(self) -> int:
        """How many events wait for another one of their key."""
        return sum(map(len, self._aside.values()))

"""A subscriber's place at a stream, or at all streams of a pattern: its credit, and what it holds.

A subscription to one stream keeps its credit in that stream's line. One to a pattern has a pool of credit
for all of its streams: it stands in each line with a single credit, which is renewed from the pool whenever
it is picked. A line that picks it while the pool is empty passes it over and is remembered; the next grant
goes to those lines, in the order in which they asked, until it is used up: a line that asks again waits behind
the others. So a grant costs what it delivers, however many streams the pattern has, and no stream starves
another. Rejected: the whole credit in each line, which would deliver it many times over.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from _fast import Handed, Leases, hold, let_go, let_go_handed
from broker.contracts.names import pattern_matches
from broker.errors import InvalidRequest, LeaseNotHeld
from broker.limits import CREDIT_MAX
from broker.streams.entry import Entry
from broker.streams.stream import Stream

D = TypeVar("D", bound=Handed[Any, Any, Any])


class Subscriber(Protocol):
    """Somebody who takes deliveries."""

    def deliver(self, entries: list[Entry]) -> None:
        """Take leased events, in their order; the list is the subscriber's own. Must not block and must not raise."""


class Subscription:
    """One subscriber. `entries` is what it holds, by sequence, in the order of delivery."""

    __slots__ = ("_by_id", "entries", "group", "passed", "pattern", "pool", "renews", "subscriber", "tickets")

    def __init__(
        self, subscriber: Subscriber, pattern: str | None = None, group: str | None = None, renews: bool = False
    ) -> None:
        self.subscriber = subscriber
        self.pattern = pattern
        """None for a subscription to one stream."""
        self.group = group
        """The consumer group whose copies it takes from; None for the streams themselves."""
        self.renews = renews
        """Whether a lease of its that runs out is given again: it is of this process, and answers every delivery."""
        self.pool = 0
        """The credit of a pattern, which its streams share."""
        self.passed: deque[Stream] = deque()
        """Streams that had an event for it while the pool was empty, in their order; each at most once, because
        it has no credit there until its turn comes."""
        self.tickets: dict[Stream, int] = {}
        self.entries: dict[int, Entry] = {}
        self._by_id: dict[str, int | set[int]] | None = None
        """The sequence of each id that is held; the sequences, where streams of a pattern share an id. None until one
        is asked for by its id: most consumers name sequences, and it costs as much as all else that is done here."""

    @property
    def credit(self) -> int:
        """How many more deliveries it wants."""
        if self.pattern is not None:
            return self.pool
        return sum(stream.credits.credit_of(ticket) for stream, ticket in self.tickets.items())

    def wants(self, stream: str) -> bool:
        """Whether a stream of this name belongs to its pattern."""
        return self.pattern is not None and pattern_matches(self.pattern, stream)

    def copy_of(self, stream: Stream) -> Stream | None:
        """What it takes the events of a stream from: the stream, or its group's copy, if that has one."""
        if self.group is None:
            return stream
        return None if stream.groups is None else stream.groups.get(self.group)

    def join(self, stream: Stream) -> None:
        """Stand in the line of a stream."""
        ticket = self.tickets[stream] = stream.credits.join(self)
        if self.pattern is not None:
            stream.patterns += 1
            stream.credits.grant(ticket, 1)

    def leave(self) -> None:
        """Stand in no line any more."""
        for stream, ticket in self.tickets.items():
            stream.credits.leave(ticket)
            stream.patterns -= self.pattern is not None
        self.tickets.clear()
        self.passed.clear()

    def grant(self, credit: int) -> Iterable[Stream]:
        """Take so much credit more; the streams that may have something for it now, each to be pumped in its turn."""
        if not 1 <= credit <= CREDIT_MAX:
            raise InvalidRequest(f"credit must be from 1 to {CREDIT_MAX}, not {credit}")
        if credit > CREDIT_MAX - self.credit:
            raise InvalidRequest(f"with {credit} more, the credit would pass its bound of {CREDIT_MAX}")
        if self.pattern is None:
            for stream, ticket in self.tickets.items():
                stream.credits.grant(ticket, credit)
            return list(self.tickets)
        self.pool += credit
        return self._asked()

    def _asked(self) -> Iterator[Stream]:
        """Give a credit to each line that asked, for as long as the pool has one."""
        for _ in range(len(self.passed)):
            if not self.pool:
                return
            stream = self.passed.popleft()
            stream.credits.grant(self.tickets[stream], 1)
            yield stream

    def pay(self, stream: Stream) -> bool:
        """A line picked it: whether it has credit. A line that is passed over will be asked again."""
        if self.pattern is None:
            return True
        if not self.pool:
            self.passed.append(stream)
            return False
        self.pool -= 1
        stream.credits.grant(self.tickets[stream], 1)
        return True

    def deliver(self, entries: list[Entry]) -> None:
        """Hand events on, and remember that they are held."""
        hold(self.entries, entries)
        if self._by_id is not None:
            for entry in entries:
                self._note_id(self._by_id, entry)
        self.subscriber.deliver(entries)

    @staticmethod
    def _note_id(by_id: dict[str, int | set[int]], entry: Entry) -> None:
        known = by_id.setdefault(entry.id, entry.seq)
        if isinstance(known, set):
            known.add(entry.seq)
        elif known != entry.seq:
            by_id[entry.id] = {known, entry.seq}

    def _seq_of(self, event_id: str) -> int | set[int] | None:
        if self._by_id is None:
            self._by_id = {}
            for entry in self.entries.values():
                self._note_id(self._by_id, entry)
        return self._by_id.get(event_id)

    def held(self, key: str | int, attempt: int | None) -> Entry:
        """What is held under an event id or a sequence; raise LeaseNotHeld if nothing is, or another attempt of it."""
        seq = key if isinstance(key, int) else self._seq_of(key)
        if isinstance(seq, set):
            raise InvalidRequest(f"{len(seq)} events with the id {key!r} are held; name the one you mean by its seq")
        entry = None if seq is None else self.entries.get(seq)
        if entry is None or (attempt is not None and attempt != entry.attempt):
            raise self.not_held(key)
        return entry

    @staticmethod
    def not_held(key: str | int) -> LeaseNotHeld:
        """What is wrong with naming an event that it does not hold."""
        named = {"seq": key} if isinstance(key, int) else {"id": key}
        return LeaseNotHeld(f"{key!r} is not held by this subscriber; its lease may have run out", **named)

    def forget(self, entry: Entry) -> None:
        """It does not hold this event any more."""
        del self.entries[entry.seq]
        self._forget_id(entry)

    def let_go(self, keys: list[str | int], leases: Leases[Entry]) -> tuple[list[Entry], list[int]] | None:
        """Hold these no more, and end their leases: what was held, and which sequences were not.

        None, with nothing changed, when not all of them are named by their sequences.
        """
        found = let_go(self.entries, keys, leases)
        if found is not None and self._by_id is not None:
            for entry in found[0]:
                self._forget_id(entry)
        return found

    def let_go_handed(
        self, deliveries: list[D], leases: Leases[Entry]
    ) -> tuple[dict[Stream, list[Entry]], list[D]] | None:
        """The same for what was handed out, by stream, and the deliveries that are not held under their attempt.

        None, with nothing changed, when not all of them were handed out for this subscription.
        """
        found = let_go_handed(self.entries, deliveries, self, leases)
        if found is not None and self._by_id is not None:
            for entries in found[0].values():
                for entry in entries:
                    self._forget_id(entry)
        return found

    def _forget_id(self, entry: Entry) -> None:
        if self._by_id is None:
            return
        known = self._by_id[entry.id]
        if not isinstance(known, set):
            del self._by_id[entry.id]
            return
        known.discard(entry.seq)
        if len(known) == 1:
            self._by_id[entry.id] = known.pop()

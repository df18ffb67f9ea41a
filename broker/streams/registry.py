"""All streams and all subscribers: they come into being here, and what is done with an event is done here.

The registry is told what the journal committed, and tells it (through the `Ledger` it was given) what became of
each event. Deliveries and their leases are the dispatcher's.
"""

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeVar

from _fast import Handed, stream_runs
from broker.clock import Clock
from broker.config import Streams as StreamsConfig
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, InvalidRequest, NotFound, OverQuota, UnknownStream
from broker.limits import LEASE_MS_MAX, LEASE_MS_MIN, NACK_DELAY_MS_MAX, STREAMS_MAX
from broker.streams.dispatch import Dispatcher
from broker.streams.entry import Entry
from broker.streams.group import Group
from broker.streams.groups import Groups
from broker.streams.groups_in_memory import GroupsInMemory
from broker.streams.ledger import GroupBook, Ledger
from broker.streams.meter import Meter, figures
from broker.streams.observer import Observer
from broker.streams.rules import RuleBook
from broker.streams.stream import Stream
from broker.streams.subscription import Subscriber, Subscription

log = logging.getLogger(__name__)

D = TypeVar("D", bound=Handed[Any, Any, Any])


class Registry:
    """Every stream by name, and everybody who subscribes to them."""

    def __init__(self, config: StreamsConfig, clock: Clock, ledger: Ledger, book: GroupBook | None = None) -> None:
        self.rule_book = RuleBook(config)
        self._config = config
        self._clock = clock
        self._ledger = ledger
        self._streams: dict[str, Stream] = {}
        self._subscriptions: set[Subscription] = set()
        self._patterns: dict[Subscription, None] = {}
        """The subscriptions to patterns, which a new stream may belong to."""
        self._dispatcher = Dispatcher(clock)
        self._committed_seq = 0
        """The newest event that the streams were told of."""
        self.groups = Groups(
            book or GroupsInMemory(), self.find, self._make, self.all, self._joined, self._has_subscribers
        )
        self._offered: dict[Stream, int] = {}
        """Streams that were given events in memory and not pumped yet, and how many."""
        self.on_stream: Callable[[str], None] = lambda _name: None
        """Told of each stream that comes into being, before its first event."""

    @property
    def observer(self) -> Observer | None:
        """Who is told of each thing that happens to an event, if somebody is."""
        return self._dispatcher.observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self._dispatcher.observer = observer

    # Streams.

    def find(self, name: str) -> Stream | None:
        """The stream of this name, if there is one."""
        return self._streams.get(name)

    def all(self) -> Iterable[Stream]:
        """Every stream."""
        return self._streams.values()

    def names(self) -> list[str]:
        """The name of every stream, in alphabetical order."""
        return sorted(self._streams)

    def open(self, name: str) -> Stream:
        """The stream of this name, made if it may be; raise UnknownStream or OverQuota if it may not."""
        stream = self._streams.get(name)
        if stream is None:
            if not self._config.auto_create and not self.rule_book.names(name):
                raise UnknownStream(f"there is no stream {name!r}, and streams.autoCreate is off; see perStreamCaps")
            if len(self._streams) >= STREAMS_MAX:
                raise OverQuota(f"there are {STREAMS_MAX} streams already; no more can be made")
            self.groups.check_room_for(name)
            stream = self._make(name)
        return stream

    def is_in_memory(self, name: str) -> bool:
        """Whether the events of a stream of this name never reach the disk."""
        return self.rule_book.any_in_memory and self.rule_book.rules_of(name).in_memory

    def _make(self, name: str) -> Stream:
        stream = self._streams[name] = Stream(name, self.rule_book.rules_of(name), self._ledger)
        self.groups.join_new(stream, self._committed_seq)
        for subscription in self._patterns:
            if subscription.group is None and subscription.wants(name):
                subscription.join(stream)
        self.on_stream(name)
        return stream

    def recover(self, name: str, pending: int, last_seq: int) -> None:
        """Take up a stream that had unfinished events when the broker last stopped."""
        stream = self._make(name)
        stream.pending = pending
        stream.arrived_seq = last_seq
        stream.behind = True

    def recover_groups(self, last_seq: int) -> None:
        """Take up the consumer groups, when every stream with unfinished events was. `last_seq` is the ledger's."""
        self._committed_seq = last_seq
        self.groups.recover(last_seq)

    def committed(self, events: list[tuple[int, InboundEvent]]) -> None:
        """Take the new events of one group commit, in order."""
        touched: dict[Stream, int] = {}
        for name, run in stream_runs(events):
            # What is on disk is taken, also when a new stream of its name would not be made any more.
            stream = self._streams.get(name) or self._make(name)
            for copy in stream.copies():
                touched[copy] = touched.get(copy, 0) + copy.arrive(run)
            self._committed_seq = run[-1][0]
        self._pump_touched(touched)

    def damaged(self, name: str, count: int) -> None:
        """So many events of a stream were found damaged in the ledger: they are dead, and wait no longer."""
        stream = self._streams[name]
        stream.pending -= count
        stream.counters.count_dead(count)

    def offer(self, events: Sequence[InboundEvent], seqs: list[int]) -> bool:
        """Take events of one stream that are only in memory, all of them, or none: True if they were taken.

        None are when the stream has no room for all, or a group's copy of it has not. `pump_offered` delivers them.
        """
        copies = self.open(events[0].stream).copies()
        for copy in copies:
            if copy.room < len(events):
                return False
        for copy in copies:
            copy.offer(events, seqs)
            self._offered[copy] = self._offered.get(copy, 0) + len(events)
        return True

    def pump_offered(self) -> None:
        """Deliver what was offered since the last time."""
        touched, self._offered = self._offered, {}
        self._pump_touched(touched)

    def _pump_touched(self, touched: dict[Stream, int]) -> None:
        now_ms = self._clock.monotonic_ms()
        for stream, count in touched.items():
            if stream.meter is None:
                stream.meter = Meter()
            stream.meter.rate_in.mark(count, now_ms)
            self._dispatcher.pump(stream)

    def stats(self, name: str) -> dict[str, Any] | None:
        """How a stream is doing (003 §7.1), with its totals since the start; None if there is none."""
        stream = self._streams.get(name)
        return None if stream is None else figures(stream, self._clock.monotonic_ms())

    def is_leased(self, name: str, seq: int) -> bool:
        """Whether a consumer has this event of a stream just now."""
        stream = self._streams.get(name)
        if stream is None or not stream.in_flight:
            return False
        held = (subscription.entries.get(seq) for subscription in self._subscriptions)
        return any(entry is not None and entry.stream is stream for entry in held)

    # Subscribers.

    def subscribe(
        self, name: str, subscriber: Subscriber, group: str | None = None, *, renews: bool = False
    ) -> Subscription:
        """Join a stream, or every stream of a pattern, without credit; of a group, its copies of them.

        `renews` is for a subscriber of this process that answers every delivery: its leases do not run out.
        Raise NotFound when the group has no copy: `join_group` gives it one.
        """
        subscription = Subscription(subscriber, name if "*" in name else None, group, renews)
        if subscription.pattern is not None:
            self._patterns[subscription] = None
            for stream in self._streams.values():
                if subscription.wants(stream.name) and (copy := subscription.copy_of(stream)) is not None:
                    subscription.join(copy)
                    self._dispatcher.pump(
                        copy
                    )  # without credit yet: what waits there is remembered for the first grant
        else:
            copy = subscription.copy_of(self.open(name))
            if copy is None:
                raise NotFound(f"there is no group {group!r} of {name!r}")
            subscription.join(copy)
        self._subscriptions.add(subscription)
        return subscription

    async def join_group(self, name: str, group: str, *, from_start: bool) -> None:
        """Give a group its copy of a stream, or of every stream of a pattern, if it has none yet."""
        if "*" not in name:
            self.open(name)
        await self.groups.register(name, group, from_start=from_start, last_seq=lambda: self._committed_seq)

    def _joined(self, copy: Group) -> None:
        """A group has a copy of a stream: its subscribers to a pattern may be there already."""
        for subscription in self._patterns:
            if subscription.group == copy.name_of_group and subscription.wants(copy.name):
                subscription.join(copy)
                self._dispatcher.catch_up.look_at(copy)

    def _has_subscribers(self, pattern: str, group: str) -> bool:
        return any((each.pattern, each.group) == (pattern, group) for each in self._patterns)

    def replayed(self, stream: str, group: str) -> None:
        """Dead letters of a group are to be delivered again."""
        found = self._streams.get(stream)
        copy = None if found is None or found.groups is None else found.groups.get(group)
        if copy is not None:
            copy.replays = True
            self._dispatcher.catch_up.look_at(copy)

    def unsubscribe(self, subscription: Subscription, unsent: Container[Entry] = ()) -> None:
        """Leave; what was held goes back to the head of its stream, in the order of delivery.

        The deliveries in `unsent` never left the broker, and do not count as attempts.
        """
        self._subscriptions.discard(subscription)
        self._patterns.pop(subscription, None)
        subscription.leave()
        touched: dict[Stream, None] = {}
        for entry in reversed(list(subscription.entries.values())):
            self._dispatcher.take_back(subscription, entry)
            touched[entry.stream] = None
            if entry in unsent:
                entry.attempt -= 1
                entry.first_attempt_at = entry.first_attempt_at if entry.attempt else None
            if entry.failures < entry.stream.rules.deliveries_max:
                self._dispatcher.note_attempt(entry)
                entry.stream.ring.restore(entry)
            else:
                self._dispatcher.again(entry, "its consumer went away")
        for stream in reversed(touched):
            self._dispatcher.pump(stream)
        self._dispatcher.feed_starved()

    def grant(self, subscription: Subscription, credit: int) -> None:
        """Let a subscriber have so many events more."""
        for stream in subscription.grant(credit):
            self._dispatcher.pump(stream)

    def ack(self, subscription: Subscription, key: str | int, attempt: int | None = None) -> None:
        """The subscriber is done with an event, named by its id or its sequence.

        Raise LeaseNotHeld if it does not hold it (any more), or not under this attempt.
        """
        for _key, error in self.ack_many(subscription, [key], attempt):
            raise error

    def ack_many(
        self, subscription: Subscription, keys: list[str | int], attempt: int | None = None
    ) -> list[tuple[str | int, CourierError]]:
        """The same for several events; those that cannot be acknowledged, each with what `ack` would raise for it."""
        found = self._dispatcher.let_go(subscription, keys) if attempt is None else None
        if found is None:
            return self._ack_each(subscription, keys, attempt)
        by_stream, lost = found
        for stream, entries in by_stream:
            self._done_in_order(stream, entries)
        self._after([stream for stream, _ in by_stream])
        return [(seq, subscription.not_held(seq)) for seq in lost]

    def ack_handed(self, subscription: Subscription, deliveries: list[D]) -> list[D] | None:
        """The same for what was handed out, each under its attempt; those that are not held any more.

        None, with nothing changed, when not all of them were handed out for this subscription.
        """
        found = self._dispatcher.let_go_handed(subscription, deliveries)
        if found is None:
            return None
        by_stream, lost = found
        for stream, entries in by_stream.items():
            self._done_in_order(stream, entries)
        self._after(by_stream)
        return lost

    def _ack_each(
        self, subscription: Subscription, keys: list[str | int], attempt: int | None
    ) -> list[tuple[str | int, CourierError]]:
        """The same for events that are named by their ids, or with an attempt."""
        refused: list[tuple[str | int, CourierError]] = []
        touched: dict[Stream, None] = {}
        for key in keys:
            try:
                entry = subscription.held(key, attempt)
            except CourierError as error:
                refused.append((key, error))
                continue
            self._dispatcher.take_back(subscription, entry)
            self._done(entry.stream, [entry])
            touched[entry.stream] = None
        self._after(touched)
        return refused

    def _done(self, stream: Stream, entries: list[Entry]) -> None:
        """A consumer is done with events that it held."""
        stream.counters.count_acked(len(entries))
        if self._dispatcher.observer is not None:
            for entry in entries:
                self._dispatcher.observer.acked(entry)
        stream.settle(entries)
        stream.ledger.processed(entries)

    def _done_in_order(self, stream: Stream, entries: list[Entry]) -> None:
        """The same for many; what follows each in its partition goes out in their order."""
        if stream.partitions is None:
            self._done(stream, entries)
            return
        for entry in entries:
            self._done(stream, [entry])
            self._dispatcher.pump(stream)

    def _after(self, touched: Iterable[Stream]) -> None:
        """Places have become free."""
        for stream in touched:
            if stream.partitions is not None:
                self._dispatcher.pump(stream)
            else:
                self._dispatcher.catch_up.look_at(stream)
        self._dispatcher.feed_starved()

    def nack(self, subscription: Subscription, key: str | int, delay_ms: int = 0, attempt: int | None = None) -> None:
        """The subscriber could not do it: back to the tail, after a delay if one is given."""
        if not 0 <= delay_ms <= NACK_DELAY_MS_MAX:
            raise InvalidRequest(f"delayMs must be from 0 to {NACK_DELAY_MS_MAX}, not {delay_ms}")
        entry = subscription.held(key, attempt)
        self._dispatcher.take_back(subscription, entry)
        entry.stream.counters.count_nacked()
        if self.observer is not None:
            self.observer.nacked(entry)
        if delay_ms and entry.failures < entry.stream.rules.deliveries_max:
            self._dispatcher.note_attempt(entry)
            self._dispatcher.lease(entry, self._clock.monotonic_ms() + delay_ms)
        else:
            self._dispatcher.again(entry, "refused by its consumer")
        self._dispatcher.pump(entry.stream)
        self._dispatcher.feed_starved()

    def bury(self, subscription: Subscription, key: str | int, reason: str, attempt: int | None = None) -> None:
        """The subscriber says that no other attempt would help: to the dead letters, with its reason."""
        entry = subscription.held(key, attempt)
        self._dispatcher.take_back(subscription, entry)
        self._dispatcher.bury(entry, reason)
        if entry.partition is not None:
            self._dispatcher.pump(entry.stream)
        self._dispatcher.catch_up.look_at(entry.stream)
        self._dispatcher.feed_starved()

    def extend(self, subscription: Subscription, key: str | int, lease_ms: int, attempt: int | None = None) -> None:
        """The subscriber needs more time, counted from now."""
        if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
            raise InvalidRequest(f"leaseMs must be from {LEASE_MS_MIN} to {LEASE_MS_MAX}, not {lease_ms}")
        entry = subscription.held(key, attempt)
        self._dispatcher.extend(entry, self._clock.monotonic_ms() + lease_ms)

    def expire(self) -> None:
        """Take back every delivery whose lease has run out, and every event whose delay is over."""
        self._dispatcher.expire()

    async def close(self) -> None:
        """Stop the timer and the reading of pages."""
        await self._dispatcher.close()

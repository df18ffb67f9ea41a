"""Deliveries: events that wait are paired with subscribers that have credit, and leased to them.

The dispatcher owns the one table of leases, and its timer. A lease that runs out brings its event back to the
tail of its stream, or makes it a dead letter; a delayed event waits in the same table.
"""

import asyncio
import logging
from typing import Any, TypeVar

from _fast import Handed, Leases, lease_out
from broker.clock import Clock
from broker.limits import LEASES_MAX
from broker.streams.catch_up import CatchUp
from broker.streams.entry import Entry
from broker.streams.meter import Meter
from broker.streams.observer import Observer
from broker.streams.stream import Stream
from broker.streams.subscription import Subscription

log = logging.getLogger(__name__)

D = TypeVar("D", bound=Handed[Any, Any, Any])

Pairs = tuple[list[Entry], list[Subscription]]
"""Events that may go out, and who is to have each."""

PAIRS_MAX = 1_000
"""How many events are leased in one step."""


class Dispatcher:
    """Every lease, by the number of its delivery."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._leases: Leases[Entry] = Leases(LEASES_MAX, clock.monotonic_ms())
        self._leased = 0
        """How many leases were ever given: the key of the latest one."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._starved: dict[Stream, None] = {}
        """Streams that have an event and a subscriber for it, but found every lease given out."""
        self.observer: Observer | None = None
        """Who is told of each thing that happens to an event, if somebody is."""
        self.catch_up = CatchUp(self.pump)
        """Reads what lies behind the windows."""

    def take_back(self, subscription: Subscription, entry: Entry) -> None:
        """End the lease of what a subscriber holds."""
        subscription.forget(entry)
        self._leases.release(entry.lease, entry.attempt)
        entry.holder = None
        entry.stream.in_flight -= 1

    def pump(self, stream: Stream) -> None:
        """Deliver while something waits and somebody has credit."""
        if stream.deliverable:
            now_ms = self._clock.monotonic_ms()
            delivered = 0
            while (room := LEASES_MAX - len(self._leases)) > 0 and (pairs := _next_pairs(stream, room))[0]:
                self._deliver(stream, pairs, now_ms)
                delivered += len(pairs[0])
            if stream.deliverable:
                self._starved[stream] = None
            if delivered:
                stream.meter = stream.meter or Meter()
                stream.meter.rate_out.mark(delivered, now_ms)
        self.catch_up.look_at(stream)

    def _deliver(self, stream: Stream, pairs: Pairs, now_ms: int) -> None:
        """Lease events to those whose turn it is. What is the same for all of them is done once."""
        entries, holders = pairs
        deadline_ms, now_us = now_ms + stream.rules.lease_ms, self._clock.wall_us()
        meter = stream.meter = stream.meter or Meter()
        shares = lease_out(
            entries, holders, self._leases, self._leased + 1, deadline_ms, now_us, meter.latency, stream.counters
        )
        self._leased += len(entries)
        self._set_timer(deadline_ms)
        stream.in_flight += len(entries)
        for subscription, share in shares.items():
            subscription.deliver(share)
        if self.observer is not None:
            for entry in entries:
                self.observer.delivered(entry)

    def let_go(
        self, subscription: Subscription, keys: list[str | int]
    ) -> tuple[list[tuple[Stream, list[Entry]]], list[int]] | None:
        """End the leases of what a subscriber holds, by sequence: what that was, by stream, and which it did not hold.

        None, with nothing changed, when not all of them are named by their sequences.
        """
        found = subscription.let_go(keys, self._leases)
        if found is None:
            return None
        entries, lost = found
        if not entries:
            return [], lost
        by_stream: dict[Stream, list[Entry]] = {}
        if subscription.pattern is None:
            by_stream[entries[0].stream] = entries
        else:
            for entry in entries:
                by_stream.setdefault(entry.stream, []).append(entry)
        for stream, ended in by_stream.items():
            stream.in_flight -= len(ended)
        return list(by_stream.items()), lost

    def let_go_handed(
        self, subscription: Subscription, deliveries: list[D]
    ) -> tuple[dict[Stream, list[Entry]], list[D]] | None:
        """End the leases of what was handed out: what that was, by stream, and which deliveries are not held any more.

        None, with nothing changed, when not all of them were handed out for this subscription.
        """
        found = subscription.let_go_handed(deliveries, self._leases)
        if found is not None:
            for stream, ended in found[0].items():
                stream.in_flight -= len(ended)
        return found

    def feed_starved(self) -> None:
        """Some leases may be free again: give them to those who wait, in the order in which they came."""
        while self._starved and len(self._leases) < LEASES_MAX:
            stream = next(iter(self._starved))
            del self._starved[stream]
            self.pump(stream)

    def lease(self, entry: Entry, deadline_ms: int) -> None:
        """Let an event come back at a time: a delivery that is not answered, or one that is delayed."""
        self._leased += 1
        entry.lease = self._leased
        self._leases.grant(entry.lease, entry.attempt, deadline_ms, entry)
        self._set_timer(deadline_ms)

    def extend(self, entry: Entry, deadline_ms: int) -> None:
        """Let a lease run out later, or earlier."""
        self._leases.extend(entry.lease, entry.attempt, deadline_ms)
        self._set_timer(deadline_ms)

    def again(self, entry: Entry, why: str) -> None:
        """Back to the tail for another attempt, or to the dead letters if that was the last one."""
        stream = entry.stream
        if entry.failures < stream.rules.deliveries_max:
            self.note_attempt(entry)
            stream.ring.requeue(entry)
            return
        self.bury(entry, f"{why}; {entry.failures} deliveries, none acknowledged")

    def bury(self, entry: Entry, reason: str) -> None:
        """An event that nobody holds becomes a dead letter."""
        stream = entry.stream
        stream.counters.count_dead()
        stream.settle([entry])
        if entry.in_ledger:
            stream.ledger.dead_letter(entry.seq, entry.failures, entry.first_attempt_at, reason)
        else:
            log.warning("event %s of stream %s, which is in memory only, is dropped: %s", entry.id, stream.name, reason)

    def note_attempt(self, entry: Entry) -> None:
        """Let the ledger know of a delivery in vain, unless it never left the broker."""
        if entry.in_ledger and entry.failures:
            entry.stream.ledger.attempted(entry.seq, entry.failures, entry.first_attempt_at)

    def _set_timer(self, deadline_ms: int) -> None:
        if self._timer is not None:
            if self._timer_at_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self.expire)

    def expire(self) -> None:
        """Take back every delivery whose lease has run out, and every event whose delay is over."""
        self._timer = None
        touched: dict[Stream, None] = {}
        for _lease, _attempt, entry in self._leases.expire(self._clock.monotonic_ms()):
            stream = entry.stream
            touched[stream] = None
            if entry.holder is None:  # a delayed nack
                stream.ring.requeue(entry)
                continue
            if entry.holder.renews:
                self.lease(entry, self._clock.monotonic_ms() + stream.rules.lease_ms)
                continue
            entry.holder.forget(entry)
            entry.holder = None
            stream.in_flight -= 1
            entry.uncounted += entry.unsent
            if self.observer is not None:
                self.observer.timed_out(entry)
            self.again(entry, "its lease ran out")
        for stream in touched:
            self.pump(stream)
        self.feed_starved()
        following_ms = self._leases.next_deadline_ms()
        if following_ms >= 0:
            self._set_timer(following_ms)

    async def close(self) -> None:
        """Stop the timer and the reading of pages."""
        if self._timer is not None:
            self._timer.cancel()
        await self.catch_up.close()


def _next_pairs(stream: Stream, room: int) -> Pairs:
    """The next events that may go out, each with the subscriber whose turn it is; none when there are none.

    One at a time where partition keys set events aside, because who is to have an event is only asked for one that may
    go out; and where a pattern has a place, because its credit there is renewed with each event.
    """
    if stream.partitions is not None or stream.patterns:
        entry = stream.take()
        if entry is None:
            return [], []
        subscription = _next_in_line(stream)
        if subscription is None:
            stream.ring.restore(entry)
            return [], []
        return [entry], [subscription]
    subscriptions = stream.credits.pick_many(min(len(stream.ring), room, PAIRS_MAX))
    return stream.ring.pop_many(len(subscriptions)), subscriptions


def _next_in_line(stream: Stream) -> Subscription | None:
    """The subscriber whose turn it is and who has credit."""
    while (subscription := stream.credits.pick()) is not None:
        if subscription.pay(stream):
            return subscription
    return None

"""All streams: they come into being here, and everything that is in flight is known here.

The registry owns the one table of leases and its timer. It is told what the journal committed, and tells
the journal (through the `Ledger` it was given) what became of each delivery.
"""

import asyncio
import logging
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from _fast import Leases
from broker.clock import Clock
from broker.config import Streams as StreamsConfig
from broker.contracts.inbound import InboundEvent
from broker.errors import InvalidRequest, OverQuota, UnknownStream
from broker.limits import LEASE_MS_MAX, LEASE_MS_MIN, LEASES_MAX, NACK_DELAY_MS_MAX, STREAMS_MAX
from broker.streams.catch_up import CatchUp, Pages
from broker.streams.entry import Entry
from broker.streams.meter import Meter
from broker.streams.rules import RuleBook
from broker.streams.stream import Stream
from broker.streams.subscription import Subscriber, Subscription

log = logging.getLogger(__name__)


class Ledger(Pages, Protocol):
    """What the streams need of the journal. Nothing here knows SQLite."""

    def processed(self, seq: int, attempts: int) -> None:
        """An event was acknowledged by its consumer."""

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:
        """An event will not be delivered any more."""


class Registry:
    """Every stream by name, every lease by the number of its delivery."""

    def __init__(self, config: StreamsConfig, clock: Clock, ledger: Ledger) -> None:
        self.rule_book = RuleBook(config)
        self._config = config
        self._clock = clock
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._streams: dict[str, Stream] = {}
        self._subscriptions: set[Subscription] = set()
        self._patterns: dict[Subscription, None] = {}
        """The subscriptions to patterns, which a new stream may belong to."""
        self._leases: Leases[Entry] = Leases(LEASES_MAX, clock.monotonic_ms())
        self._leased = 0
        """How many leases were ever given: the key of the latest one."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._catch_up = CatchUp(ledger, self._pump)
        self._starved: dict[Stream, None] = {}
        """Streams that have an event and a subscriber for it, but found every lease given out."""
        self._offered: dict[Stream, int] = {}
        """Streams that were given events in memory and not pumped yet, and how many."""

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
            stream = self._make(name)
        return stream

    def is_in_memory(self, name: str) -> bool:
        """Whether the events of a stream of this name never reach the disk."""
        return self.rule_book.any_in_memory and self.rule_book.rules_of(name).in_memory

    def _make(self, name: str) -> Stream:
        stream = self._streams[name] = Stream(name, self.rule_book.rules_of(name))
        for subscription in self._patterns:
            if subscription.wants(name):
                subscription.join(stream)
        return stream

    def recover(self, name: str, pending: int, last_seq: int) -> None:
        """Take up a stream that had unfinished events when the broker last stopped."""
        stream = self._make(name)
        stream.pending = pending
        stream.arrived_seq = last_seq
        stream.behind = True

    def committed(self, events: list[tuple[int, InboundEvent]]) -> None:
        """Take the new events of one group commit, in order."""
        touched: dict[Stream, int] = {}
        for seq, event in events:
            # What is on disk is taken, also when a new stream of its name would not be made any more.
            stream = self._streams.get(event.stream) or self._make(event.stream)
            touched[stream] = touched.get(stream, 0) + 1
            stream.arrive(_entry(stream, seq, event))
        self._pump_touched(touched)

    def offer(self, seq: int, event: InboundEvent) -> bool:
        """Take an event that is only in memory; False when its stream is full. `pump_offered` delivers it."""
        stream = self.open(event.stream)
        if not stream.offer(_entry(stream, seq, event)):
            return False
        self._offered[stream] = self._offered.get(stream, 0) + 1
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
            self._pump(stream)

    def stats(self, name: str) -> dict[str, Any] | None:
        """How a stream is doing (003 §7.1), with its totals since the start; None if there is none."""
        stream = self._streams.get(name)
        if stream is None:
            return None
        now_ms = self._clock.monotonic_ms()
        meter = stream.meter or Meter()
        last = datetime.fromtimestamp(stream.last_received_at / 1e6, UTC) if stream.last_received_at else None
        return {
            "depth": stream.pending - stream.in_flight,
            "inflight": stream.in_flight,
            "rateIn": round(meter.rate_in.per_second(now_ms), 3),
            "rateOut": round(meter.rate_out.per_second(now_ms), 3),
            "latP50": meter.latency_ms(50),
            "latP95": meter.latency_ms(95),
            "lastTs": None if last is None else last.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "subscribers": len(stream.credits),
            "durability": "memory" if stream.rules.in_memory else "journal",
            "totals": {
                "in": stream.total_in,
                "out": stream.total_delivered,
                "ack": stream.total_acked,
                "nack": stream.total_nacked,
                "redelivered": stream.total_redelivered,
                "dead": stream.total_dead,
            },
        }

    def is_leased(self, name: str, seq: int) -> bool:
        """Whether a consumer has this event of a stream just now."""
        stream = self._streams.get(name)
        if stream is None or not stream.in_flight:
            return False
        return any(seq in subscription.entries for subscription in self._subscriptions)

    # Subscribers.

    def subscribe(self, name: str, subscriber: Subscriber) -> Subscription:
        """Join a stream, or every stream of a pattern, without credit."""
        if "*" in name:
            subscription = Subscription(subscriber, name)
            self._patterns[subscription] = None
            for stream in self._streams.values():
                if subscription.wants(stream.name):
                    subscription.join(stream)
                    self._pump(stream)  # without credit yet: what waits there is remembered for the first grant
        else:
            subscription = Subscription(subscriber)
            subscription.join(self.open(name))
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription, unsent: Container[Entry] = ()) -> None:
        """Leave; what was held goes back to the head of its stream, in the order of delivery.

        The deliveries in `unsent` never left the broker, and do not count as attempts.
        """
        self._subscriptions.discard(subscription)
        self._patterns.pop(subscription, None)
        subscription.leave()
        touched: dict[Stream, None] = {}
        for entry in reversed(list(subscription.entries.values())):
            self._take_back(subscription, entry)
            touched[entry.stream] = None
            if entry in unsent:
                entry.attempt -= 1
                entry.first_attempt_at = entry.first_attempt_at if entry.attempt else None
            if entry.attempt < entry.stream.rules.deliveries_max:
                entry.stream.ring.restore(entry)
            else:
                self._again(entry, "its consumer went away")
        for stream in reversed(touched):
            self._pump(stream)
        self._feed_starved()

    def grant(self, subscription: Subscription, credit: int) -> None:
        """Let a subscriber have so many events more."""
        for stream in subscription.grant(credit):
            self._pump(stream)

    def ack(self, subscription: Subscription, key: str | int, attempt: int | None = None) -> None:
        """The subscriber is done with an event, named by its id or its sequence.

        Raise LeaseNotHeld if it does not hold it (any more), or not under this attempt.
        """
        entry = subscription.held(key, attempt)
        self._take_back(subscription, entry)
        stream = entry.stream
        stream.total_acked += 1
        stream.settle(entry)
        if entry.in_ledger:
            self._ledger.processed(entry.seq, entry.attempt)
        if entry.partition is not None:
            self._pump(stream)
        self._catch_up.look_at(stream)
        self._feed_starved()

    def nack(self, subscription: Subscription, key: str | int, delay_ms: int = 0, attempt: int | None = None) -> None:
        """The subscriber could not do it: back to the tail, after a delay if one is given."""
        if not 0 <= delay_ms <= NACK_DELAY_MS_MAX:
            raise InvalidRequest(f"delayMs must be from 0 to {NACK_DELAY_MS_MAX}, not {delay_ms}")
        entry = subscription.held(key, attempt)
        self._take_back(subscription, entry)
        entry.stream.total_nacked += 1
        if delay_ms and entry.attempt < entry.stream.rules.deliveries_max:
            self._lease(entry, self._clock.monotonic_ms() + delay_ms)
        else:
            self._again(entry, "refused by its consumer")
        self._pump(entry.stream)
        self._feed_starved()

    def extend(self, subscription: Subscription, key: str | int, lease_ms: int, attempt: int | None = None) -> None:
        """The subscriber needs more time, counted from now."""
        if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
            raise InvalidRequest(f"leaseMs must be from {LEASE_MS_MIN} to {LEASE_MS_MAX}, not {lease_ms}")
        entry = subscription.held(key, attempt)
        deadline_ms = self._clock.monotonic_ms() + lease_ms
        self._leases.extend(entry.lease, entry.attempt, deadline_ms)
        self._set_timer(deadline_ms)

    # Deliveries.

    def _take_back(self, subscription: Subscription, entry: Entry) -> None:
        """End the lease of what a subscriber holds."""
        subscription.forget(entry)
        self._leases.release(entry.lease, entry.attempt)
        entry.holder = None
        entry.stream.in_flight -= 1

    def _pump(self, stream: Stream) -> None:
        """Deliver while something waits and somebody has credit."""
        now_ms = self._clock.monotonic_ms()
        before = stream.total_delivered
        while stream.deliverable and len(self._leases) < LEASES_MAX:
            entry = stream.take()
            if entry is None:
                break
            subscription = _next_in_line(stream)
            if subscription is None:
                stream.ring.restore(entry)
                break
            self._deliver(subscription, entry, now_ms + stream.rules.lease_ms)
        if stream.deliverable:
            self._starved[stream] = None
        delivered = stream.total_delivered - before
        if delivered:
            stream.meter = stream.meter or Meter()
            stream.meter.rate_out.mark(delivered, now_ms)
        self._catch_up.look_at(stream)

    def _deliver(self, subscription: Subscription, entry: Entry, deadline_ms: int) -> None:
        stream = entry.stream
        entry.attempt += 1
        if entry.first_attempt_at is None:
            entry.first_attempt_at = self._clock.wall_us()
            stream.meter = stream.meter or Meter()
            stream.meter.latency.record(entry.first_attempt_at - entry.received_at)
        else:
            stream.total_redelivered += 1
        stream.in_flight += 1
        stream.total_delivered += 1
        entry.holder = subscription
        self._lease(entry, deadline_ms)
        subscription.deliver(entry)

    def _feed_starved(self) -> None:
        """Some leases may be free again: give them to those who wait, in the order in which they came."""
        while self._starved and len(self._leases) < LEASES_MAX:
            stream = next(iter(self._starved))
            del self._starved[stream]
            self._pump(stream)

    def _lease(self, entry: Entry, deadline_ms: int) -> None:
        self._leased += 1
        entry.lease = self._leased
        self._leases.grant(entry.lease, entry.attempt, deadline_ms, entry)
        self._set_timer(deadline_ms)

    def _again(self, entry: Entry, why: str) -> None:
        """Back to the tail for another attempt, or to the dead letters if that was the last one."""
        stream = entry.stream
        if entry.attempt < stream.rules.deliveries_max:
            stream.ring.requeue(entry)
            return
        stream.total_dead += 1
        stream.settle(entry)
        reason = f"{why}; {entry.attempt} deliveries, none acknowledged"
        if entry.in_ledger:
            self._ledger.dead_letter(entry.seq, entry.attempt, entry.first_attempt_at, reason)
        else:
            log.warning("event %s of stream %s, which is in memory only, is dropped: %s", entry.id, stream.name, reason)

    # Time.

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
            entry.holder.forget(entry)
            entry.holder = None
            stream.in_flight -= 1
            self._again(entry, "its lease ran out")
        for stream in touched:
            self._pump(stream)
        self._feed_starved()
        following_ms = self._leases.next_deadline_ms()
        if following_ms >= 0:
            self._set_timer(following_ms)

    async def close(self) -> None:
        """Stop the timer and the reading of pages."""
        if self._timer is not None:
            self._timer.cancel()
        await self._catch_up.close()


def _entry(stream: Stream, seq: int, event: InboundEvent) -> Entry:
    return Entry(stream, seq, event.source_event_id, event.envelope, event.received_at, event.partition_key)


def _next_in_line(stream: Stream) -> Subscription | None:
    """The subscriber whose turn it is and who has credit."""
    while (subscription := stream.credits.pick()) is not None:
        if subscription.pay(stream):
            return subscription
    return None

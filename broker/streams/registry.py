"""All streams: they come into being here, and everything that is in flight is known here.

The registry owns the one table of leases and its timer. It is told what the journal committed, and tells
the journal (through the `Ledger` it was given) what became of each delivery.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Protocol

from _fast import Leases
from broker.clock import Clock
from broker.config import Streams as StreamsConfig
from broker.contracts.inbound import InboundEvent
from broker.errors import InvalidRequest, LeaseNotHeld, OverQuota, UnknownStream
from broker.limits import CREDIT_MAX, LEASE_MS_MAX, LEASE_MS_MIN, LEASES_MAX, NACK_DELAY_MS_MAX, STREAMS_MAX
from broker.streams.entry import Entry
from broker.streams.stream import Stream, Subscriber, Subscription

log = logging.getLogger(__name__)

WINDOW_MAX = 10_000
"""How many events of one durable stream are kept in memory; the rest waits in the ledger."""


PAGE_RETRY_SECONDS = 1.0
"""How long to wait before a page that could not be read is asked for again."""


class Ledger(Protocol):
    """What the streams need of the journal. Nothing here knows SQLite."""

    @property
    def lagging(self) -> bool:
        """Whether so many outcomes wait to be written that no more events should be read."""

    def processed(self, seq: int, attempts: int) -> None:
        """An event was acknowledged by its consumer."""

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:
        """An event will not be delivered any more."""

    def pending_page(
        self, stream: str, after_seq: int, limit: int
    ) -> Awaitable[tuple[Sequence[tuple[int, str, bytes, int]], int]]:
        """The next pending events of a stream as (seq, id, envelope, attempts), and up to where that goes."""


class Registry:
    """Every stream by name, every lease by sequence."""

    def __init__(self, config: StreamsConfig, clock: Clock, ledger: Ledger) -> None:
        self._config = config
        self._clock = clock
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._streams: dict[str, Stream] = {}
        self._holders: dict[int, Subscription] = {}
        self._leases: Leases[Entry] = Leases(LEASES_MAX, clock.monotonic_ms())
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._pages: set[asyncio.Task[None]] = set()
        self._starved: dict[str, Stream] = {}
        """Streams that have an event and a subscriber for it, but found every lease given out."""

    # Streams.

    def find(self, name: str) -> Stream | None:
        """The stream of this name, if there is one."""
        return self._streams.get(name)

    def all(self) -> Iterable[Stream]:
        """Every stream."""
        return self._streams.values()

    def names(self) -> list[str]:
        """The names of all streams, sorted."""
        return sorted(self._streams)

    def stats(self, name: str) -> dict[str, Any] | None:
        """A stream in figures (003 §7.1), if there is one of this name."""
        stream = self._streams.get(name)
        if stream is None:
            return None
        return {
            "depth": stream.pending - stream.in_flight,
            "inflight": stream.in_flight,
            "rateIn": 0.0,
            "rateOut": 0.0,
            "latP50": None,
            "latP95": None,
            "lastTs": None,
        }

    def is_leased(self, _stream: str, seq: int) -> bool:
        """Whether a subscriber holds the event of this sequence."""
        return seq in self._holders

    def open(self, name: str) -> Stream:
        """The stream of this name, made if it may be; raise UnknownStream or OverQuota if it may not."""
        stream = self._streams.get(name)
        if stream is None:
            if not self._config.auto_create and name not in self._config.per_stream_caps:
                raise UnknownStream(f"there is no stream {name!r}, and streams.autoCreate is off; see perStreamCaps")
            if len(self._streams) >= STREAMS_MAX:
                raise OverQuota(f"there are {STREAMS_MAX} streams already; no more can be made")
            stream = self._make(name)
        return stream

    def _make(self, name: str) -> Stream:
        stream = self._streams[name] = Stream(name, min(WINDOW_MAX, self._config.max_depth))
        return stream

    def recover(self, name: str, pending: int, last_seq: int) -> None:
        """Take up a stream that had unfinished events when the broker last stopped."""
        stream = self._make(name)
        stream.pending = pending
        stream.arrived_seq = last_seq
        stream.behind = True

    def committed(self, events: list[tuple[int, InboundEvent]]) -> None:
        """Take the new events of one group commit, in order."""
        now_ms = self._clock.monotonic_ms()
        touched: dict[str, Stream] = {}
        for seq, event in events:
            stream = touched.get(event.stream)
            if stream is None:
                # What is on disk is taken, also when a new stream of its name would not be made any more.
                stream = touched[event.stream] = self._streams.get(event.stream) or self._make(event.stream)
            stream.arrive(Entry(event.stream, seq, event.source_event_id, event.envelope, 0, now_ms))
        for stream in touched.values():
            self._pump(stream)

    # Subscribers.

    def subscribe(self, name: str, subscriber: Subscriber) -> Subscription:
        """Join a stream, without credit."""
        return Subscription(self.open(name), subscriber)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Leave a stream; what was held goes back to its head, in the order of delivery."""
        stream = subscription.stream
        stream.credits.leave(subscription.ticket)
        for entry in reversed(subscription.entries.values()):
            self._leases.release(entry.seq, entry.attempt)
            del self._holders[entry.seq]
            stream.in_flight -= 1
            if entry.attempt < self._config.max_deliveries:
                stream.ring.restore(entry)
            else:
                self._again(stream, entry, "its consumer went away")
        subscription.entries.clear()
        self._pump(stream)
        self._feed_starved()

    def grant(self, subscription: Subscription, credit: int) -> None:
        """Let a subscriber have so many events more."""
        if not 1 <= credit <= CREDIT_MAX:
            raise InvalidRequest(f"credit must be from 1 to {CREDIT_MAX}, not {credit}")
        try:
            subscription.stream.credits.grant(subscription.ticket, credit)
        except OverflowError:
            raise InvalidRequest(f"with {credit} more, the credit would pass its bound of {CREDIT_MAX}") from None
        self._pump(subscription.stream)

    def ack(self, subscription: Subscription, event_id: str) -> None:
        """The subscriber is done with an event. Raise LeaseNotHeld if it does not hold it (any more)."""
        entry = self._take_back(subscription, event_id)
        stream = subscription.stream
        stream.ring.release()
        stream.pending -= 1
        stream.total_acked += 1
        self._ledger.processed(entry.seq, entry.attempt)
        if stream.behind:
            self._catch_up(stream)
        self._feed_starved()

    def nack(self, subscription: Subscription, event_id: str, delay_ms: int = 0) -> None:
        """The subscriber could not do it: back to the tail, after a delay if one is given."""
        if not 0 <= delay_ms <= NACK_DELAY_MS_MAX:
            raise InvalidRequest(f"delayMs must be from 0 to {NACK_DELAY_MS_MAX}, not {delay_ms}")
        entry = self._take_back(subscription, event_id)
        subscription.stream.total_nacked += 1
        if delay_ms and entry.attempt < self._config.max_deliveries:
            self._lease(entry, self._clock.monotonic_ms() + delay_ms)
        else:
            self._again(subscription.stream, entry, "refused by its consumer")
        self._pump(subscription.stream)
        self._feed_starved()

    def extend(self, subscription: Subscription, event_id: str, lease_ms: int) -> None:
        """The subscriber needs more time, counted from now."""
        if not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
            raise InvalidRequest(f"leaseMs must be from {LEASE_MS_MIN} to {LEASE_MS_MAX}, not {lease_ms}")
        entry = subscription.entries.get(event_id)
        if entry is None:
            raise LeaseNotHeld(f"{event_id!r} is not held by this subscriber; its lease may have run out", id=event_id)
        deadline_ms = self._clock.monotonic_ms() + lease_ms
        self._leases.extend(entry.seq, entry.attempt, deadline_ms)
        self._set_timer(deadline_ms)

    # Deliveries.

    def _take_back(self, subscription: Subscription, event_id: str) -> Entry:
        entry = subscription.entries.pop(event_id, None)
        if entry is None:
            raise LeaseNotHeld(f"{event_id!r} is not held by this subscriber; its lease may have run out", id=event_id)
        self._leases.release(entry.seq, entry.attempt)
        del self._holders[entry.seq]
        subscription.stream.in_flight -= 1
        return entry

    def _pump(self, stream: Stream) -> None:
        """Deliver while something waits and somebody has credit."""
        deadline_ms = self._clock.monotonic_ms() + self._config.default_lease_ms
        while stream.deliverable and len(self._leases) < LEASES_MAX:
            entry = stream.ring.pop()
            subscription = stream.credits.pick()
            assert entry is not None
            assert subscription is not None
            entry.attempt += 1
            if entry.first_attempt_at is None:
                entry.first_attempt_at = self._clock.wall_us()
            else:
                stream.total_redelivered += 1
            stream.in_flight += 1
            stream.total_delivered += 1
            self._holders[entry.seq] = subscription
            self._lease(entry, deadline_ms)
            subscription.deliver(entry)
        if stream.deliverable:
            self._starved[stream.name] = stream
        if stream.behind:
            self._catch_up(stream)

    def _feed_starved(self) -> None:
        """Some leases may be free again: give them to those who wait, in the order in which they came."""
        while self._starved and len(self._leases) < LEASES_MAX:
            self._pump(self._starved.pop(next(iter(self._starved))))

    def _lease(self, entry: Entry, deadline_ms: int) -> None:
        self._leases.grant(entry.seq, entry.attempt, deadline_ms, entry)
        self._set_timer(deadline_ms)

    def _again(self, stream: Stream, entry: Entry, why: str) -> None:
        """Back to the tail for another attempt, or to the dead letters if that was the last one."""
        if entry.attempt < self._config.max_deliveries:
            stream.ring.requeue(entry)
            return
        stream.ring.release()
        stream.pending -= 1
        stream.total_dead += 1
        reason = f"{why}; {entry.attempt} deliveries, none acknowledged"
        self._ledger.dead_letter(entry.seq, entry.attempt, entry.first_attempt_at, reason)

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
        touched: dict[str, Stream] = {}
        for seq, _attempt, entry in self._leases.expire(self._clock.monotonic_ms()):
            stream = touched[entry.stream] = self._streams[entry.stream]
            subscription = self._holders.pop(seq, None)
            if subscription is None:  # a delayed nack
                stream.ring.requeue(entry)
                continue
            subscription.entries.pop(entry.id)
            stream.in_flight -= 1
            self._again(stream, entry, "its lease ran out")
        for stream in touched.values():
            self._pump(stream)
        self._feed_starved()
        following_ms = self._leases.next_deadline_ms()
        if following_ms >= 0:
            self._set_timer(following_ms)

    # Behind the window.

    def _catch_up(self, stream: Stream) -> None:
        """Read the next page of the ledger, when half of the window is free and none is being read."""
        if stream.paging or stream.room * 2 < stream.ring.capacity:
            return
        stream.paging = True
        task = self._loop.create_task(self._read_page(stream))
        self._pages.add(task)
        task.add_done_callback(self._pages.discard)

    async def _read_page(self, stream: Stream) -> None:
        try:
            while self._ledger.lagging:  # noqa: ASYNC110 - the writer has nobody to tell, and this is rare
                await asyncio.sleep(PAGE_RETRY_SECONDS)
            rows, last_seq = await self._ledger.pending_page(stream.name, stream.loaded_seq, stream.room)
            now_ms = self._clock.monotonic_ms()
            stream.load_page([Entry(stream.name, *row, now_ms) for row in rows], last_seq)
        except Exception:
            log.exception("a page of stream %s could not be read; trying again", stream.name)
            await asyncio.sleep(PAGE_RETRY_SECONDS)
        finally:
            stream.paging = False
        self._pump(stream)

    async def close(self) -> None:
        """Stop the timer and the reading of pages."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._pages):
            task.cancel()
        await asyncio.gather(*self._pages, return_exceptions=True)

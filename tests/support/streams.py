"""What the streams stand on, in memory: a ledger, and a subscriber that remembers."""

import asyncio
from collections.abc import Sequence

from broker.contracts.inbound import InboundEvent
from broker.streams.entry import Entry
from broker.streams.ledger import Row
from broker.streams.registry import Registry
from broker.streams.subscription import Subscription

PENDING, PROCESSED, DEAD = "pending", "processed", "dead"
ROUNDS_MAX = 100


class Stored:
    """An event of the ledger."""

    def __init__(self, seq: int, event: InboundEvent) -> None:
        self.seq = seq
        self.event = event
        self.state = PENDING
        self.attempts = 0
        self.reason = ""


class FakeLedger:
    """A ledger in memory, which checks that every event comes to one end only."""

    lagging = False

    def __init__(self) -> None:
        self.rows: list[Stored] = []
        self.pages_read = 0
        self.hold_pages: asyncio.Event | None = None
        """If set, a page that was read is kept back until this event is."""
        self.failures = 0
        """How many of the next reads fail."""

    def write(self, stream: str, event_id: str) -> tuple[int, InboundEvent]:
        """Commit an event, without telling the streams; what `Registry.committed` takes."""
        envelope = b'{"id":"%b"}' % event_id.encode()
        event = InboundEvent("courier", stream, "t", f"stream:{stream}", event_id, 0, envelope, b"")
        self.rows.append(Stored(len(self.rows) + 1, event))
        return len(self.rows), event

    def write_all(self, stream: str, *event_ids: str) -> list[tuple[int, InboundEvent]]:
        """Commit several events as one batch."""
        return [self.write(stream, event_id) for event_id in event_ids]

    def state_of(self, event_id: str) -> str:
        """What became of an event."""
        return next(row.state for row in self.rows if row.event.source_event_id == event_id)

    def processed(self, entries: list[Entry]) -> None:
        """Events were acknowledged by their consumer."""
        for entry in entries:
            if entry.in_ledger:
                self._end(entry.seq, PROCESSED, entry.attempt)

    def attempted(self, seq: int, attempts: int, first_attempt_at: int | None) -> None:
        """An event was delivered in vain, and waits again."""
        assert first_attempt_at is not None
        assert self.rows[seq - 1].state == PENDING
        self.rows[seq - 1].attempts = attempts

    def dead_letter(self, seq: int, attempts: int, first_attempt_at: int | None, reason: str) -> None:
        """An event will not be delivered any more."""
        assert first_attempt_at is not None
        self._end(seq, DEAD, attempts)
        self.rows[seq - 1].reason = reason

    def _end(self, seq: int, state: str, attempts: int) -> None:
        row = self.rows[seq - 1]
        assert row.state == PENDING, f"{row.event.source_event_id} was {row.state} already"
        row.state, row.attempts = state, attempts

    async def pending_page(self, stream: str, after_seq: int, limit: int) -> tuple[Sequence[Row], int]:
        """The next pending events of a stream, and up to where that goes."""
        self.pages_read += 1
        if self.failures:
            self.failures -= 1
            raise OSError("the page cannot be read")
        found = [row for row in self.rows if row.event.stream == stream and row.seq > after_seq]
        page = [row for row in found if row.state == PENDING][:limit]
        if self.hold_pages is not None:
            await self.hold_pages.wait()
        rows = [
            (
                row.seq,
                row.event.source_event_id,
                row.event.envelope,
                row.event.received_at,
                row.event.partition_key,
                row.attempts,
            )
            for row in page
        ]
        return rows, page[-1].seq if page else after_seq


def acked(seq: int, attempts: int = 1) -> list[Entry]:
    """What a journal is told of an event that was acknowledged."""
    return [Entry(None, seq, f"e-{seq}", b"", 0, None, attempts)]


class Inbox:
    """A subscriber that keeps the deliveries it got, as (id, attempt)."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[str, int]] = []

    @property
    def ids(self) -> list[str]:
        """The ids of the deliveries, in order."""
        return [event_id for event_id, _attempt in self.deliveries]

    def deliver(self, entries: list[Entry]) -> None:
        """Take leased events."""
        self.deliveries += [(entry.id, entry.attempt) for entry in entries]


def join(registry: Registry, name: str, credit: int = 0) -> tuple[Inbox, Subscription]:
    """A subscriber to a stream or a pattern, with so much credit."""
    inbox = Inbox()
    subscription = registry.subscribe(name, inbox)
    if credit:
        registry.grant(subscription, credit)
    return inbox, subscription


async def pages_are_read(registry: Registry) -> None:
    """Wait until no page is being read, nor asked for."""
    for _ in range(ROUNDS_MAX):
        if not registry._dispatcher.catch_up.tasks:
            return
        await asyncio.gather(*registry._dispatcher.catch_up.tasks)
    raise AssertionError("pages are read for ever")


class Unfired:
    """Timers that never fire: the machine lets leases run out itself, whatever real time has passed."""

    def call_later(self, _seconds: float, _callback: object) -> "Unfired":
        return self

    def cancel(self) -> None:
        """It would not have fired anyway."""

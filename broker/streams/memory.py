"""Streams that are only in memory (003): acknowledged when they are in the ring, and lost with the process.

A duplicate is found by a window of identities, the most recent ones of all such streams. The bytes of the
original are not kept, so a duplicate with another payload is not told apart from a true one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from _fast import Dedupe
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, OverQuota
from broker.journal.submission import Job, Receipts
from broker.streams.entry import MEMORY_SEQ_FIRST
from broker.streams.registry import Registry

_BATCH = 1
"""An identity is in flight within one call only, so one number does for all."""


class Durable(Protocol):
    """What is needed of the journal."""

    def submit_events(
        self, events: Sequence[InboundEvent], done: Callable[..., None], job: Job | None = None, effects: bool = False
    ) -> None:
        """Queue events; raise Saturated when there is no room."""


class Intake:
    """Takes admitted events: those of durable streams go to the journal, the others straight into their streams."""

    def __init__(self, journal: Durable, registry: Registry, dedupe_entries: int) -> None:
        self._journal = journal
        self._registry = registry
        self._dedupe: Dedupe | None = Dedupe(dedupe_entries) if registry.rule_book.any_in_memory else None
        self._next_seq = MEMORY_SEQ_FIRST

    def submit_events(
        self, events: Sequence[InboundEvent], done: Callable[..., None], job: Job | None = None, effects: bool = False
    ) -> None:
        """As the journal's; `done` learns of events in memory at once, and of a mixture after the commit.

        A job and effects are for the journal: the events that come with them are of durable streams only.
        """
        if job is not None or effects:
            self._journal.submit_events(events, done, job, effects)
            return
        if self._dedupe is None or not events:
            self._journal.submit_events(events, done)
            return
        in_memory = [self._registry.open(event.stream).rules.in_memory for event in events]
        if all(in_memory):
            done(self._offered(events, in_memory, None))
        elif any(in_memory):
            durable = [event for event, here in zip(events, in_memory, strict=True) if not here]

            def committed(outcome: Any) -> None:
                done(outcome if isinstance(outcome, Exception) else self._offered(events, in_memory, outcome))

            self._journal.submit_events(durable, committed)
        else:
            self._journal.submit_events(events, done)

    def _offered(
        self, events: Sequence[InboundEvent], in_memory: Sequence[bool], committed: Receipts | None
    ) -> Receipts:
        """Put the events that are only in memory into their streams; the receipts of all, in order."""
        seqs: list[int] = []
        duplicates: dict[int, tuple[int, bool]] = {}
        refusals: dict[int, CourierError] = {}
        at = 0  # how many of those from the journal came before
        for position, (event, here) in enumerate(zip(events, in_memory, strict=True)):
            if here:
                seqs.append(self._offer(event, position, duplicates, refusals))
                continue
            assert committed is not None
            seqs.append(committed.seqs[at])
            if at in committed.duplicates:
                duplicates[position] = committed.duplicates[at]
            at += 1
        self._registry.pump_offered()
        return Receipts(seqs, duplicates, refusals=refusals)

    def _offer(
        self,
        event: InboundEvent,
        position: int,
        duplicates: dict[int, tuple[int, bool]],
        refusals: dict[int, CourierError],
    ) -> int:
        assert self._dedupe is not None
        identity = f"{event.source_system}\0{event.source_event_id}".encode()
        known = self._dedupe.claim(identity, _BATCH)
        if known:
            duplicates[position] = (event.received_at, False)
            return -known
        if not self._registry.offer(self._next_seq, event):
            self._dedupe.abort(identity)
            refusals[position] = OverQuota(
                f"stream {event.stream} is full: it holds streams.maxDepth events; let its consumers catch up, "
                "and send it again",
                stream=event.stream,
            )
            return 0
        self._dedupe.commit(identity, self._next_seq)
        self._next_seq += 1
        return self._next_seq - 1

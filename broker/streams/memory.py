"""Streams that are only in memory (003): acknowledged when they are in the ring, and lost with the process.

A duplicate is found by a window of identities, the most recent ones of all such streams. The bytes of the
original are not kept, so a duplicate with another payload is not told apart from a true one.

An event that a rule emitted has a cause in the same submission, and is taken only if that one is new. Cause
and effect may be of different kinds, so a mixture is taken in turns: what is durable and does not wait for
something in memory goes to the journal; after its commit what is in memory is offered; and so on, at most as
often as a chain of rules changes between the two.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from _fast import Dedupe, claim_events, kinds_of
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, OverQuota
from broker.journal.submission import Job, Receipts
from broker.streams.entry import MEMORY_SEQ_FIRST
from broker.streams.registry import Registry

Kinds = list[tuple[str, str]]
"""The stream and the type of each run of events."""

_BATCH = 1
"""An identity is in flight within one call only, so one number does for all."""


class Durable(Protocol):
    """What is needed of the journal."""

    def submit_events(
        self,
        events: Sequence[InboundEvent],
        done: Callable[..., None],
        causes: Sequence[int] = (),
        job: Job | None = None,
        effects: bool = False,
    ) -> None:
        """Queue events; raise Saturated when there is no room."""


class Intake:
    """Takes admitted events: those of durable streams go to the journal, the others straight into their streams."""

    def __init__(self, journal: Durable, registry: Registry, dedupe_entries: int) -> None:
        self._journal = journal
        self._registry = registry
        self._dedupe: Dedupe | None = Dedupe(dedupe_entries) if registry.rule_book.any_in_memory else None
        self._next_seq = MEMORY_SEQ_FIRST
        self._new: list[tuple[list[int], Sequence[InboundEvent], Kinds]] = []
        """New events in memory of which nobody was told yet, with their sequences."""
        self.duplicates = 0
        self.on_events: Callable[[list[tuple[int, InboundEvent]]], None] = lambda _events: None
        """Told of new events that are only in memory, in order, before their producers are."""
        self.is_watched: Callable[[Kinds], bool] = lambda _kinds: True
        """Whether somebody wants to be told of events of these streams and types: else nothing is made ready for it."""

    def submit_events(
        self,
        events: Sequence[InboundEvent],
        done: Callable[..., None],
        causes: Sequence[int] = (),
        job: Job | None = None,
        effects: bool = False,
    ) -> None:
        """As the journal's; `done` learns of events in memory at once, and of a mixture after the commit.

        The job, and what is registered for the producer's own events, belong to the first commit.
        """
        if self._dedupe is None or not events:
            self._journal.submit_events(events, done, causes, job, effects)
            return
        kinds = kinds_of(events)
        memory = {stream: self._registry.open(stream).rules.in_memory for stream, _ in kinds}
        if all(memory.values()) and not causes and job is None:
            done(self._offered(events, kinds))
        elif any(memory.values()):
            in_memory = [memory[event.stream] for event in events]
            _Mixture(events, causes, in_memory, done, self._journal, self._offer, self._rise).start(job, effects)
        else:
            self._journal.submit_events(events, done, causes, job, effects)

    def _offered(self, events: Sequence[InboundEvent], kinds: Kinds) -> Receipts:
        """Put events that are only in memory into their streams; the usual case, without a mixture's book-keeping."""
        return self._offered_together(events, kinds) or self._offered_each(events)

    def _offered_together(self, events: Sequence[InboundEvent], kinds: Kinds) -> Receipts | None:
        """New events of one stream that has room for them, in one step; None, and nothing changed, for others."""
        assert self._dedupe is not None
        if len(kinds) > 1 and len(dict(kinds)) > 1:
            return None
        if not claim_events(events, self._dedupe, _BATCH):
            return None
        seqs = list(range(self._next_seq, self._next_seq + len(events)))
        if not self._registry.offer(events, seqs):
            self._dedupe.abort_batch(_BATCH)
            return None
        self._dedupe.commit_batch(_BATCH, self._next_seq)
        self._new.append((seqs, events, kinds))
        self._next_seq += len(events)
        self._rise()
        return Receipts(seqs, {})

    def _offered_each(self, events: Sequence[InboundEvent]) -> Receipts:
        """The same, one by one: some are there already, some may find no room, or they are of several streams."""
        seqs: list[int] = []
        duplicates: dict[int, tuple[int, bool]] = {}
        refusals: dict[int, CourierError] = {}
        for position, event in enumerate(events):
            seq, refusal = self._offer(event)
            seqs.append(seq)
            if seq < 0:
                duplicates[position] = (event.received_at, False)
            if refusal is not None:
                refusals[position] = refusal
        self._rise()
        return Receipts(seqs, duplicates, refusals=refusals)

    def _rise(self) -> None:
        """Let what was offered rise to those who look at it, and to its consumers."""
        new, self._new = self._new, []
        watched = [
            pair for seqs, events, kinds in new if self.is_watched(kinds) for pair in zip(seqs, events, strict=True)
        ]
        if watched:
            self.on_events(watched)
        self._registry.pump_offered()

    def _offer(self, event: InboundEvent) -> tuple[int, CourierError | None]:
        """Put an event that is only in memory into its stream; its sequence as in receipts, or why it was refused."""
        assert self._dedupe is not None
        identity = f"{event.source_system}\0{event.source_event_id}".encode()
        known = self._dedupe.claim(identity, _BATCH)
        if known:
            self.duplicates += 1
            return -known, None
        if not self._registry.offer((event,), [self._next_seq]):
            self._dedupe.abort(identity)
            return 0, OverQuota(
                f"stream {event.stream} is full: it holds streams.maxDepth events; let its consumers catch up, "
                "and send it again",
                stream=event.stream,
            )
        self._dedupe.commit(identity, self._next_seq)
        self._new.append(([self._next_seq], (event,), [(event.stream, event.type)]))
        self._next_seq += 1
        return self._next_seq - 1, None


class _Mixture:
    """A submission with events in memory, and what has become of each event so far."""

    def __init__(
        self,
        events: Sequence[InboundEvent],
        causes: Sequence[int],
        in_memory: Sequence[bool],
        done: Callable[..., None],
        journal: Durable,
        offer: Callable[[InboundEvent], tuple[int, CourierError | None]],
        pump: Callable[[], None],
    ) -> None:
        self._events = events
        self._own = len(events) - len(causes)
        self._causes = [-1] * self._own + list(causes)
        self._in_memory = in_memory
        self._done = done
        self._journal = journal
        self._offer = offer
        self._pump = pump
        self._seqs: list[int | None] = [None] * len(events)
        """As in receipts; None as long as it is not decided."""
        self._duplicates: dict[int, tuple[int, bool]] = {}
        self._refusals: dict[int, CourierError] = {}
        self._job_result: Any = None

    def start(self, job: Job | None, effects: bool) -> None:
        """Take it. Raise what keeps the producer's own events from the journal."""
        durable = self._durable_now()
        if durable or job is not None:
            self._commit(durable, job, effects)
        else:
            self._go_on()

    def _durable_now(self) -> list[int]:
        """The durable events that wait for nothing in memory; those without a new cause are decided on the way."""
        found: list[int] = []
        taken: set[int] = set()
        for position, cause in enumerate(self._causes):
            if self._in_memory[position] or self._seqs[position] is not None:
                continue
            if cause < 0 or cause in taken or (self._seqs[cause] or 0) > 0:
                found.append(position)
                taken.add(position)
            elif self._seqs[cause] is not None:
                self._seqs[position] = 0
        return found

    def _commit(self, durable: list[int], job: Job | None = None, effects: bool = False) -> None:
        places = {position: index for index, position in enumerate(durable)}
        own = sum(position < self._own for position in durable)

        def committed(outcome: Any) -> None:
            if isinstance(outcome, Exception):
                self._refused(durable, outcome)
                return
            for index, position in enumerate(durable):
                self._seqs[position] = outcome.seqs[index]
                if not outcome.seqs[index]:
                    self._refusals[position] = outcome.refusal(index)
                if index in outcome.duplicates:
                    self._duplicates[position] = outcome.duplicates[index]
            if job is not None:
                self._job_result = outcome.job_result
            self._go_on()

        causes = [places.get(self._causes[position], -1) for position in durable[own:]]
        events = [self._events[position] for position in durable]
        self._journal.submit_events(events, committed, causes, job, effects)

    def _refused(self, durable: list[int], error: Exception) -> None:
        """The journal took nothing. The producer hears of it, unless these are effects of what was taken already."""
        if not durable or durable[0] < self._own or not isinstance(error, CourierError):
            self._done(error)
            return
        for position in durable:
            self._seqs[position] = 0
            self._refusals[position] = error
        self._go_on()

    def _go_on(self) -> None:
        """Offer what is in memory and can be decided; then what is durable and waited for that; then answer."""
        for position, event in enumerate(self._events):
            cause = self._causes[position]
            if not self._in_memory[position] or self._seqs[position] is not None:
                continue
            if cause >= 0 and self._seqs[cause] is None:
                continue
            if cause >= 0 and (self._seqs[cause] or 0) <= 0:
                self._seqs[position] = 0
                continue
            self._offer_one(position, event)
        self._pump()
        durable = self._durable_now()
        if durable:
            try:
                self._commit(durable)
            except CourierError as error:
                self._refused(durable, error)
        elif None in self._seqs:
            self._go_on()  # something was left out, and what waited for it can be decided
        else:
            seqs = [seq or 0 for seq in self._seqs]
            self._done(Receipts(seqs, self._duplicates, self._job_result, self._refusals))

    def _offer_one(self, position: int, event: InboundEvent) -> None:
        seq, refusal = self._offer(event)
        self._seqs[position] = seq
        if seq < 0:
            self._duplicates[position] = (event.received_at, False)
        if refusal is not None:
            self._refusals[position] = refusal

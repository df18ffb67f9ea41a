"""The events of one submission, with all that rules make of them.

    own events ─► match ─► enrich (in place) ─► notify, route ─► effects, behind their causes ─► match ─► …

Effects run through the rules like any event, at most eight hops from what a producer sent. Everything is
committed with its cause, in one group commit; what becomes of an event shows only there, so what is counted
and which rules rest is settled afterwards.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker.clock import Clock
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, TooLarge
from broker.journal.submission import Receipts
from broker.limits import (
    TRIGGER_COOLDOWN_KEY_BYTES_MAX,
    TRIGGER_EMITTED_BYTES_MAX,
    TRIGGER_EMITTED_PER_CAUSE_MAX,
    TRIGGER_EMITTED_PER_SUBMISSION_MAX,
    TRIGGER_HOPS_MAX,
)
from broker.triggers.actions import Chain, Link, emitted, enriched
from broker.triggers.cooldown import Cooldowns, Rest, Slot
from broker.triggers.fields import Fields
from broker.triggers.render import rendered_text
from broker.triggers.rule import Rule

Admit = Callable[[str, str], object]
"""Let an event of a source onto a stream, or raise the CourierError that says why not."""


class Candidates(Protocol):
    """What is needed of the rules."""

    def candidates(self, stream: str, event_type: str) -> tuple[Rule, ...]:
        """The rules that may be for events of this stream and type, in their order."""


class Run:
    """One rule and one event that it was for: what came of it."""

    __slots__ = ("cause", "errors", "held_back", "missing", "rest", "rows", "rule", "seconds")

    def __init__(self, rule: Rule, cause: int) -> None:
        self.rule = rule
        self.cause = cause
        """The position of the event."""
        self.rows: list[tuple[int, int]] = []
        """What it emitted: the position of each event, and of the action that made it."""
        self.errors: list[str] = []
        self.held_back = False
        self.missing = 0
        self.rest: Rest | None = None
        self.seconds = 0.0
        """How long it took."""


class RunObserver(Protocol):
    """Somebody who is told of each run on a new event. Must not block, and must not raise."""

    def trigger_ran(self, trigger: str, seq: int, event: InboundEvent, seconds: float) -> None:
        """A trigger did what it does with an event, and took so long."""

    def trigger_failed(self, trigger: str, seq: int, event: InboundEvent, seconds: float, error: str) -> None:
        """A trigger could not do it."""


class Expansion:
    """A submission while the rules run over it, and until it is known what became of it."""

    def __init__(self, events: Sequence[InboundEvent], rules: Candidates, cooldowns: Cooldowns, admit: Admit) -> None:
        self.events: list[InboundEvent] = list(events)
        """The producer's own events, perhaps enriched; then the effects, each behind its cause."""
        self.causes: list[int] = []
        """The position of the cause of each effect."""
        self.runs: list[Run] = []
        self._own = len(events)
        self._rules = rules
        self._cooldowns = cooldowns
        self._admit = admit
        self._emitted_bytes = 0
        self._chains: dict[int, Chain] = {}
        self._roots: dict[int, int] = {}
        """Which of the producer's events each effect goes back to."""
        self._emitted_by_root: dict[int, int] = {}

    def run(self) -> None:
        """Run the rules over the events, and over what they emit. No rule can make this raise."""
        position = 0
        while position < len(self.events):
            event = self.events[position]
            candidates = self._rules.candidates(event.stream, event.type)
            if candidates:
                self._run_rules(position, candidates)
            position += 1

    def _run_rules(self, position: int, candidates: Sequence[Rule]) -> None:
        """Match and enrich, rule by rule, so that each sees what those before it added; then emit."""
        fields = Fields(self.events[position])
        matched: list[Run] = []
        for rule in candidates:
            run = Run(rule, position)
            started = time.perf_counter()
            try:
                if rule.miss_by_fields(fields) is not None:
                    continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the rule's fault, never the event's
                run.errors.append(_said("when", error))
            self.runs.append(run)
            for at, action in rule.enriches if not run.errors else ():
                try:
                    self.events[position] = enriched(action, fields)
                except Exception as error:  # noqa: BLE001 - as above
                    run.errors.append(_said(f"do[{at}]", error))
                run.missing += fields.missing
                fields = Fields(self.events[position])
            run.seconds = time.perf_counter() - started
            if rule.emits and not run.errors:
                matched.append(run)
        for run in matched:
            fields.missing = 0
            started = time.perf_counter()
            try:
                self._emit(run, fields)
            except Exception as error:  # noqa: BLE001 - as above
                run.errors.append(_said("limits", error))
            run.missing += fields.missing
            run.seconds += time.perf_counter() - started

    def _emit(self, run: Run, fields: Fields) -> None:
        chain = self._chains.get(run.cause, ())
        if len(chain) >= TRIGGER_HOPS_MAX:
            run.errors.append(
                f"the event is {TRIGGER_HOPS_MAX} hops from what was sent, and no rule goes further: "
                f"{' → '.join(link.rule for link in chain)} → {run.rule.id}"
            )
            return
        if self._is_held_back(run, fields):
            run.held_back = True
            return
        for at, action in run.rule.emits:
            try:
                event = emitted(run.rule.id, at, action, fields, chain)
                root = self._roots.get(run.cause, run.cause)
                self._check_bounds(root, len(event.envelope))
                self._admit(event.source_system, event.stream)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the rule's fault, never the event's
                run.errors.append(_said(f"do[{at}]", error))
                continue
            cause = fields.event
            self._chains[len(self.events)] = (*chain, Link(cause.source_system, cause.source_event_id, run.rule.id))
            self._roots[len(self.events)] = root
            self._emitted_by_root[root] = self._emitted_by_root.get(root, 0) + 1
            self._emitted_bytes += len(event.envelope)
            run.rows.append((len(self.events), at))
            self.events.append(event)
            self.causes.append(run.cause)

    def _is_held_back(self, run: Run, fields: Fields) -> bool:
        """Whether the rule rests; if not, it does so from now on."""
        limits = run.rule.trigger.limits
        if not limits.cooldown_ms:
            return False
        if self._cooldowns.is_known(fields.event.source_system, fields.event.source_event_id):
            return True  # it is a duplicate: nothing would come of it, and it is not counted
        key = "" if limits.cooldown_key is None else rendered_text(limits.cooldown_key, fields)
        if len(key) > TRIGGER_COOLDOWN_KEY_BYTES_MAX:  # what is remembered of a key has a bound too
            key = hashlib.sha256(key.encode()).hexdigest()
        slot = Slot(run.rule.id, key)
        if self._cooldowns.rests(slot):
            return True
        run.rest = self._cooldowns.begin(slot, limits.cooldown_ms)
        return False

    def _check_bounds(self, root: int, size: int) -> None:
        if self._emitted_by_root.get(root, 0) >= TRIGGER_EMITTED_PER_CAUSE_MAX:
            raise TooLarge(f"one event may set off at most {TRIGGER_EMITTED_PER_CAUSE_MAX} others")
        if len(self.causes) >= TRIGGER_EMITTED_PER_SUBMISSION_MAX:
            raise TooLarge(f"what is sent at once may set off at most {TRIGGER_EMITTED_PER_SUBMISSION_MAX} events")
        if self._emitted_bytes + size > TRIGGER_EMITTED_BYTES_MAX:
            raise TooLarge(f"what is sent at once may set off at most {TRIGGER_EMITTED_BYTES_MAX} bytes of events")

    def hops(self, position: int) -> int:
        """How many rules were between what was sent and the event at this position."""
        return len(self._chains.get(position, ()))

    def settle(self, outcome: Any, clock: Clock, observer: RunObserver | None = None) -> Any:
        """Count what the rules did, now that it is known what became of the events; the producer's part of it."""
        if not isinstance(outcome, Receipts):
            for run in self.runs:
                self._give_back(run)
            return outcome
        for run in self.runs:
            if outcome.seqs[run.cause] > 0:
                self._count(run, outcome, clock, observer)
            else:
                self._give_back(run)
            if outcome.seqs[run.cause] and run.rule.trigger.limits.cooldown_ms:
                cause = self.events[run.cause]
                self._cooldowns.know(cause.source_system, cause.source_event_id)
        return outcome.first(self._own)

    def _count(self, run: Run, receipts: Receipts, clock: Clock, observer: RunObserver | None) -> None:
        """Count one run, whose event is new."""
        tally = run.rule.tally
        tally.matched += 1
        tally.missing_fields += run.missing
        refused = [(position, at) for position, at in run.rows if receipts.seqs[position] == 0]
        errors = [*run.errors, *(f"do[{at}]: {receipts.refusal(position).message}" for position, at in refused)]
        if len(refused) == len(run.rows):
            self._give_back(run)
        if run.held_back:
            tally.held_back += 1
            return
        cause, seq = self.events[run.cause], receipts.seqs[run.cause]
        if errors:
            tally.fail(f"{errors[0]} (event {cause.source_event_id!r})", clock.wall_us(), clock.monotonic_ms())
            if observer is not None:
                observer.trigger_failed(run.rule.id, seq, cause, run.seconds, errors[0])
        else:
            tally.ran += 1
            if observer is not None:
                observer.trigger_ran(run.rule.id, seq, cause, run.seconds)

    def _give_back(self, run: Run) -> None:
        if run.rest is not None:
            self._cooldowns.give_back(run.rest)


def _said(place: str, error: Exception) -> str:
    text = error.message if isinstance(error, CourierError) else f"{type(error).__name__}: {error}"
    return f"{place}: {text}"

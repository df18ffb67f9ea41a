"""Rules and submissions together: what the gate calls, and what asks without doing."""

from collections.abc import Sequence

from broker.clock import Clock
from broker.contracts.inbound import InboundEvent
from broker.triggers.cooldown import Cooldowns
from broker.triggers.expansion import Admit, Expansion, RunObserver
from broker.triggers.rule_set import RuleSet


class Engine:
    """Runs the rules over what the gate admitted."""

    def __init__(self, rules: RuleSet, clock: Clock, admit: Admit) -> None:
        self.rules = rules
        self.cooldowns = Cooldowns(clock)
        self.observer: RunObserver | None = None
        """Who is told of each run, if somebody is."""
        self._clock = clock
        self._admit = admit

    def has_rules_for(self, events: Sequence[InboundEvent]) -> bool:
        """Whether some rule may be for one of these events."""
        candidates = self.rules.candidates
        return any(candidates(event.stream, event.type) for event in events)

    def expand(self, events: Sequence[InboundEvent]) -> "Expanded | None":
        """The events with all that rules make of them; None when no rule is for any of them."""
        if not self.has_rules_for(events):
            return None
        expansion = Expansion(events, self.rules, self.cooldowns, self._admit)
        expansion.run()
        return Expanded(expansion, self._clock, self.observer) if expansion.runs else None

    def dry_run(self, event: InboundEvent) -> Expansion:
        """What rules would make of an event. Nothing is stored, no rule rests, and no stream comes into being."""
        expansion = Expansion((event,), self.rules, self.cooldowns.copy(), lambda _source, _stream: None)
        expansion.run()
        return expansion


class Expanded:
    """A submission as the gate hands it on."""

    __slots__ = ("_clock", "_expansion", "_observer", "causes", "events")

    def __init__(self, expansion: Expansion, clock: Clock, observer: RunObserver | None) -> None:
        self.events = expansion.events
        self.causes = expansion.causes
        self._expansion = expansion
        self._clock = clock
        self._observer = observer

    def settle(self, outcome: object) -> object:
        """What became of the producer's own events, once what became of all is counted."""
        return self._expansion.settle(outcome, self._clock, self._observer)

"""The rules, from the configuration and over the API, and which of them an event is for.

Which rules are for a stream and a type is remembered, because it is asked for every event. Producers choose
both, so what is remembered has a bound; when it is reached, all of it is forgotten.
"""

from collections.abc import Callable, Iterable

from broker.config import Trigger
from broker.limits import TRIGGER_CANDIDATES_REMEMBERED_MAX
from broker.triggers.rule import Rule


class RuleSet:
    """Rules in their order: those of the configuration as they stand there, then those of the API by their ids."""

    def __init__(self, configured: Iterable[Trigger]) -> None:
        self._configured = {trigger.id: Rule(trigger, "config") for trigger in configured}
        self._added: dict[str, Rule] = {}
        self._candidates: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Told when a rule was added, replaced or removed."""

    def __len__(self) -> int:
        return len(self._configured) + len(self._added)

    def all(self) -> list[Rule]:
        """Every rule, in order."""
        return [*self._configured.values(), *(self._added[rule_id] for rule_id in sorted(self._added))]

    def find(self, rule_id: str) -> Rule | None:
        """The rule of this id."""
        return self._configured.get(rule_id) or self._added.get(rule_id)

    def put(self, trigger: Trigger) -> Rule:
        """Add or replace a rule of the API; it counts from zero."""
        assert trigger.id not in self._configured, "a rule of the configuration is changed there"
        rule = self._added[trigger.id] = Rule(trigger, "api")
        self._changed()
        return rule

    def remove(self, rule_id: str) -> None:
        """Remove a rule of the API."""
        self._added.pop(rule_id, None)
        self._changed()

    def _changed(self) -> None:
        self._candidates.clear()
        self.on_change()

    def candidates(self, stream: str, event_type: str) -> tuple[Rule, ...]:
        """The rules that may be for events of this stream and type, in their order."""
        found = self._candidates.get((stream, event_type))
        if found is None:
            if len(self._candidates) >= TRIGGER_CANDIDATES_REMEMBERED_MAX:
                self._candidates.clear()
            found = tuple(rule for rule in self.all() if rule.miss_by_name(stream, event_type) is None)
            self._candidates[stream, event_type] = found
        return found

    @property
    def remembered(self) -> int:
        """For how many streams and types the rules are remembered."""
        return len(self._candidates)

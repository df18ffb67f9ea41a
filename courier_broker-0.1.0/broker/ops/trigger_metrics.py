"""The figures of the triggers."""

from collections.abc import Iterator

from broker.ops.metrics import Family, metric, values
from broker.triggers.rule_set import RuleSet

MATCHED = metric("courier_trigger_matched_total", "counter", "New events that a trigger was for.", "trigger")
RAN = metric("courier_trigger_runs_total", "counter", "Of those, events for which it did all that it says.", "trigger")
HELD_BACK = metric(
    "courier_trigger_held_back_total", "counter", "Of those, events that came while it rested.", "trigger"
)
FAILED = metric(
    "courier_trigger_failures_total", "counter", "Of those, events for which it could not do something.", "trigger"
)
MISSING = metric(
    "courier_trigger_missing_fields_total", "counter", "Templates that asked for a field that was not there.", "trigger"
)


class TriggerMetrics:
    """A collector. There are at most as many labels as there may be triggers."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules

    def __call__(self) -> Iterator[Family]:
        """The families."""
        tallies = {rule.id: rule.tally for rule in self._rules.all()}
        yield values(MATCHED, [(rule, tally.matched) for rule, tally in tallies.items()])
        yield values(RAN, [(rule, tally.ran) for rule, tally in tallies.items()])
        yield values(HELD_BACK, [(rule, tally.held_back) for rule, tally in tallies.items()])
        yield values(FAILED, [(rule, tally.failed) for rule, tally in tallies.items()])
        yield values(MISSING, [(rule, tally.missing_fields) for rule, tally in tallies.items()])

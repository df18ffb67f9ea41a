"""The figures of the contracts besides Courier's own: what they refused, and what went wrong in their effects."""

from collections.abc import Iterator, Mapping

from broker.journal.effects import Effects
from broker.journal.rejections import Rejections
from broker.ops.metrics import Family, metric, value, values

REJECTIONS = metric(
    "courier_rejections_total", "counter", "Events refused for good, and whether the refusal was kept.", "receipt"
)
EFFECT_FAILURES = metric(
    "courier_effect_failures_total", "counter", "Events that were not stored because an effect of theirs failed."
)
PAYLOAD_VIOLATIONS = metric(
    "courier_pixel_payload_violations_total",
    "counter",
    "New events that were stored although their payload broke the operator's schema; their receipts say how.",
)


class ContractMetrics:
    """A collector."""

    def __init__(
        self, rejections: Rejections, effects: Effects, payload_violations: Mapping[tuple[str, str], int]
    ) -> None:
        self._rejections = rejections
        self._effects = effects
        self._payload_violations = payload_violations

    def __call__(self) -> Iterator[Family]:
        """The families."""
        rejections = self._rejections
        yield values(REJECTIONS, [("dropped", rejections.dropped), ("kept", rejections.kept)])
        yield value(EFFECT_FAILURES, self._effects.failures)
        yield value(PAYLOAD_VIOLATIONS, sum(self._payload_violations.values()))

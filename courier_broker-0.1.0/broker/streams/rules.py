"""What holds for a stream, by its name: the general settings, and those of the patterns that match it.

Each setting comes from the most specific pattern that gives it. A pattern that says nothing about a
setting leaves it to a less specific one, and in the end to the general setting.
"""

from typing import NamedTuple

from broker.config import StreamCaps, Streams
from broker.contracts.names import pattern_matches, pattern_specificity


class StreamRules(NamedTuple):
    """The settings of one stream."""

    depth_max: int
    lease_ms: int
    deliveries_max: int
    in_memory: bool


class RuleBook:
    """Finds the rules of a stream."""

    def __init__(self, config: Streams) -> None:
        self._config = config
        self._patterns: list[tuple[str, StreamCaps]] = sorted(
            config.per_stream_caps.items(), key=lambda item: pattern_specificity(item[0]), reverse=True
        )
        self.any_in_memory = config.durability == "memory" or any(
            caps.durability == "memory" for _, caps in self._patterns
        )
        """Whether some stream may be in memory only."""

    def names(self, stream: str) -> bool:
        """Whether the configuration names this stream, by itself or by a pattern."""
        return any(pattern_matches(pattern, stream) for pattern, _ in self._patterns)

    def rules_of(self, stream: str) -> StreamRules:
        """The settings that hold for a stream."""
        config = self._config
        depth_max: int | None = None
        lease_ms: int | None = None
        deliveries_max: int | None = None
        durability: str | None = None
        for pattern, caps in self._patterns:
            if pattern_matches(pattern, stream):
                depth_max = caps.max_depth if depth_max is None else depth_max
                lease_ms = caps.lease_ms if lease_ms is None else lease_ms
                deliveries_max = caps.max_deliveries if deliveries_max is None else deliveries_max
                durability = caps.durability if durability is None else durability
        return StreamRules(
            config.max_depth if depth_max is None else depth_max,
            config.default_lease_ms if lease_ms is None else lease_ms,
            config.max_deliveries if deliveries_max is None else deliveries_max,
            (durability or config.durability) == "memory",
        )

"""The figures of the sources that are pulled from."""

from collections.abc import Iterator, Sequence

from broker.ops.metrics import Family, metric, values
from broker.sources.state import SourceState

UP = metric(
    "courier_source_up", "gauge", "1 if the source is connected, or its last poll came to something; else 0.", "source"
)
ROUNDS = metric("courier_source_rounds_total", "counter", "Polls, or connections that were begun.", "source")
EVENTS = metric("courier_source_events_total", "counter", "New events that were stored.", "source")
DUPLICATES = metric("courier_source_duplicates_total", "counter", "Events that were there already.", "source")
REJECTIONS = metric("courier_source_rejections_total", "counter", "Items and frames that were refused.", "source")
ERRORS = metric("courier_source_errors_total", "counter", "Polls and connections that failed or broke off.", "source")
SATURATIONS = metric(
    "courier_source_saturations_total",
    "counter",
    "Times that reading was paused because the ingest queue was full, or a quota used up.",
    "source",
)


class SourceMetrics:
    """A collector. There are at most as many labels as there may be sources."""

    def __init__(self, states: Sequence[SourceState]) -> None:
        self._states = states

    def __call__(self) -> Iterator[Family]:
        """The families."""
        states = self._states
        yield values(UP, [(state.name, float(state.is_up)) for state in states])
        yield values(ROUNDS, [(state.name, state.rounds) for state in states])
        yield values(EVENTS, [(state.name, state.events) for state in states])
        yield values(DUPLICATES, [(state.name, state.duplicates) for state in states])
        yield values(REJECTIONS, [(state.name, state.rejected) for state in states])
        yield values(ERRORS, [(state.name, state.errors) for state in states])
        yield values(SATURATIONS, [(state.name, state.saturations) for state in states])

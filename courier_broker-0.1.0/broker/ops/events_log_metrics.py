"""The figures of the log of events."""

from collections.abc import Iterator

from broker.ops.events_log import EventLog
from broker.ops.metrics import Family, metric, value, values

LINES = metric("courier_event_log_lines_total", "counter", "Lines of the log of events that were written.")
DROPPED = metric(
    "courier_event_log_dropped_total",
    "counter",
    "Lines that were dropped: too many waited, or the file could not be written.",
    "reason",
)
WAITING = metric("courier_event_log_waiting_lines", "gauge", "Lines that wait to be written.")


class EventLogMetrics:
    """A collector."""

    def __init__(self, events_log: EventLog) -> None:
        self._log = events_log

    def __call__(self) -> Iterator[Family]:
        """The families."""
        yield value(LINES, self._log.written)
        yield values(DROPPED, [("failing", self._log.dropped_failing), ("waiting", self._log.dropped_waiting)])
        yield value(WAITING, self._log.waiting)

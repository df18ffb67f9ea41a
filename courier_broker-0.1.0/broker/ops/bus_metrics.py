"""The figures of the event bus."""

from collections.abc import Iterator

from broker.bus import EventBus
from broker.ops.metrics import Family, metric, value, values
from broker.ops.stream_metrics import OTHER

HANDLED = metric("courier_bus_events_handled_total", "counter", "Events that all handlers have succeeded with.")
FAILED = metric("courier_bus_events_failed_total", "counter", "Events that a handler has failed for good.")
RETRIED = metric("courier_bus_events_retried_total", "counter", "Times that an event went to wait for its next try.")
ERRORS = metric("courier_bus_handler_errors_total", "counter", "Times that a handler raised, or took too long.")
RUNNING = metric("courier_bus_events_running", "gauge", "Events that are being handled.")
SUBSCRIPTIONS = metric("courier_bus_subscriptions", "gauge", "Handlers that are subscribed.")
WAITING = metric("courier_bus_events_waiting", "gauge", "Events that are not done yet.", "topic")


class BusMetrics:
    """A collector. The first topics have labels of their own; the others are one, `(other)`."""

    def __init__(self, bus: EventBus, labels_max: int) -> None:
        self._bus = bus
        self._labels_max = labels_max

    def __call__(self) -> Iterator[Family]:
        """The families."""
        tally = self._bus.tally
        yield value(HANDLED, tally.handled)
        yield value(FAILED, tally.failed)
        yield value(RETRIED, tally.retried)
        yield value(ERRORS, tally.errors)
        yield value(RUNNING, self._bus.running)
        yield value(SUBSCRIPTIONS, self._bus.subscriptions)
        waiting = list(self._bus.waiting().items())
        shown: list[tuple[str, float]] = [*waiting[: self._labels_max]]
        if others := waiting[self._labels_max :]:
            shown.append((OTHER, sum(pending for _, pending in others)))
        yield values(WAITING, shown)

"""The figures of what is put off."""

from collections.abc import Awaitable, Callable, Iterator

from broker.ops.metrics import Family, histogram, metric, value
from broker.scheduler.tally import Tally

PUT_OFF = metric("courier_deferred_scheduled_total", "counter", "Events that were put off.")
REPEATED = metric("courier_deferred_repeated_total", "counter", "Times that one was to be put off that was already.")
FIRED = metric("courier_deferred_fired_total", "counter", "Events that were published when they were due.")
CANCELLED = metric("courier_deferred_cancelled_total", "counter", "Events that were cancelled in time.")
REFUSED = metric(
    "courier_deferred_refused_total", "counter", "Times that an event was due and not taken, and had to wait again."
)
PASSED_OVER = metric(
    "courier_deferred_runs_missed_total", "counter", "Runs that were missed, of what is to skip those."
)
WAITING = metric("courier_deferred_waiting", "gauge", "Events that are put off.")
LATE = metric(
    "courier_deferred_late_seconds",
    "histogram",
    "From when an event was due to when it was published.",
)
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0)


class ScheduleMetrics:
    """A collector; `refresh` must have run before."""

    def __init__(self, tally: Tally, count: Callable[[], Awaitable[int]]) -> None:
        self._tally = tally
        self._count = count
        self._waiting = 0

    async def refresh(self) -> None:
        """Count what waits."""
        self._waiting = await self._count()

    def __call__(self) -> Iterator[Family]:
        """The families."""
        tally = self._tally
        yield value(PUT_OFF, tally.put_off)
        yield value(REPEATED, tally.repeated)
        yield value(FIRED, tally.fired)
        yield value(CANCELLED, tally.cancelled)
        yield value(REFUSED, tally.refused)
        yield value(PASSED_OVER, tally.passed_over)
        yield value(WAITING, self._waiting)
        yield histogram(LATE, tally.late_us, BOUNDS, 1e-6)

"""What the handlers of one event have come to, so that a retry runs none of them that is through with it.

It is in memory: after a crash, every handler of an unfinished event is run again.
"""

from dataclasses import dataclass, field

from broker.bus.subscription import Subscription
from broker.limits import BUS_ERROR_CHARACTERS_MAX, BUS_RETRYING_MAX


@dataclass(slots=True)
class Progress:
    """Of one event."""

    succeeded: set[Subscription] = field(default_factory=set)
    errors: dict[Subscription, str] = field(default_factory=dict)
    """What the last try of each handler that did not succeed ended with."""
    tries: dict[Subscription, int] = field(default_factory=dict)

    def is_through(self, subscription: Subscription) -> bool:
        """Whether a handler is not to be run any more: it succeeded, or has no retry left."""
        if subscription in self.succeeded:
            return True
        return subscription in self.errors and self.tries[subscription] > subscription.retries

    def succeed(self, subscription: Subscription) -> None:
        """A handler returned."""
        self.succeeded.add(subscription)
        self.errors.pop(subscription, None)

    def fail(self, subscription: Subscription, error: str) -> None:
        """A handler raised, or took too long."""
        self.tries[subscription] = self.tries.get(subscription, 0) + 1
        self.errors[subscription] = error

    @property
    def retry_in_seconds(self) -> float | None:
        """When to try again those that may: after the longest of their delays; None if there are none."""
        delays = [each.delay_after(self.tries[each]) for each in self.errors if not self.is_through(each)]
        return max(delays, default=None)

    @property
    def error(self) -> str:
        """What goes into the journal: each handler that failed, with its error."""
        text = "; ".join(f"{each.subscriber_id}: {error}" for each, error in self.errors.items())
        return text if len(text) <= BUS_ERROR_CHARACTERS_MAX else f"{text[:BUS_ERROR_CHARACTERS_MAX]}…"


class Retrying:
    """The progress of every event that waits to be tried again, by its place in the journal."""

    def __init__(self) -> None:
        self._progress: dict[int, Progress] = {}

    def __len__(self) -> int:
        return len(self._progress)

    def take(self, seq: int) -> Progress:
        """How far an event had come; nowhere, for one that is new here."""
        return self._progress.pop(seq, None) or Progress()

    def keep(self, seq: int, progress: Progress) -> None:
        """Remember it. Past the bound the oldest is forgotten: all of its handlers are run again."""
        self._progress[seq] = progress
        if len(self._progress) > BUS_RETRYING_MAX:
            del self._progress[next(iter(self._progress))]

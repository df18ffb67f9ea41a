"""What the streams must do, said as simply as possible: every event of a stream in exactly one place.

The model is told each command, and is then shown the deliveries that came of it; it says whether they were
allowed. With `exact`, it also predicts them: that needs a window which holds everything.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

WAITING, DELAYED, IN_FLIGHT, ACKED, DEAD = "waiting", "delayed", "in flight", "acked", "dead"


class Delivery(NamedTuple):
    """What a subscriber was handed."""

    subscriber: int
    event_id: str
    attempt: int


class Event:
    """One event: where it is, and how often it was delivered."""

    def __init__(self, event_id: str, number: int, failed: int) -> None:
        self.event_id = event_id
        self.number = number
        self.place = WAITING
        self.attempt = failed
        self.failed = failed
        """How many deliveries in vain the ledger knows of: from there a restart goes on."""
        self.holder: int | None = None
        self.deadline_ms = 0
        self.leased_as = 0
        """The how-many-th lease this was: the order of delivery."""
        self.extended_as = 0
        """The same, but an extension counts too: it tells equal deadlines apart."""


class StreamModel:
    """One stream."""

    def __init__(self, *, lease_ms: int, max_deliveries: int, exact: bool) -> None:
        self._lease_ms = lease_ms
        self._max_deliveries = max_deliveries
        self._exact = exact
        self._leases = 0
        self._fresh = 0
        self.events: dict[str, Event] = {}
        self.announced = 0
        self.credit: dict[int, int] = {}
        self._queue: deque[str] = deque()
        self._line: deque[int] = deque()

    # Where everything is.

    def at(self, *places: str) -> list[Event]:
        """The events in these places."""
        return [event for event in self.events.values() if event.place in places]

    def held_by(self, subscriber: int) -> list[Event]:
        """What a subscriber holds, in the order of delivery."""
        held = [event for event in self.events.values() if event.holder == subscriber]
        return sorted(held, key=lambda event: event.leased_as)

    @property
    def pending(self) -> int:
        """How many events were announced and have not come to their end."""
        return self.announced - len(self.at(ACKED, DEAD))

    # Commands.

    def write(self, event_id: str, failed: int = 0) -> None:
        self.events[event_id] = Event(event_id, len(self.events), failed)

    def announce(self, event_id: str) -> None:
        self.announced += 1
        self._queue.append(event_id)

    def join(self, subscriber: int) -> None:
        self.credit[subscriber] = 0

    def leave(self, subscriber: int) -> None:
        del self.credit[subscriber]
        if subscriber in self._line:
            self._line.remove(subscriber)
        for event in reversed(self.held_by(subscriber)):
            event.holder = None
            self._back(event, at_head=True)

    def grant(self, subscriber: int, credit: int) -> None:
        if self.credit[subscriber] == 0:
            self._line.append(subscriber)
        self.credit[subscriber] += credit

    def ack(self, event: Event) -> None:
        event.place, event.holder = ACKED, None

    def nack(self, event: Event, now_ms: int, delay_ms: int) -> None:
        event.holder = None
        if delay_ms and event.attempt < self._max_deliveries:
            event.place, event.failed = DELAYED, event.attempt
            self._until(event, now_ms + delay_ms)
        else:
            self._back(event)

    def extend(self, event: Event, deadline_ms: int) -> None:
        self._until(event, deadline_ms, same_lease=True)

    def due(self, now_ms: int) -> list[Event]:
        """The leases and delays that are over, in the order in which they come back."""
        out = [event for event in self.at(DELAYED, IN_FLIGHT) if event.deadline_ms <= now_ms]
        return sorted(out, key=lambda event: (event.deadline_ms, event.extended_as))

    def come_back(self, event: Event) -> None:
        event.holder = None
        if event.place == DELAYED:
            event.place = WAITING
            self._queue.append(event.event_id)
        else:
            self._back(event)

    def _back(self, event: Event, *, at_head: bool = False) -> None:
        if event.attempt >= self._max_deliveries:
            event.place = DEAD
            return
        event.place, event.failed = WAITING, event.attempt
        if at_head:
            self._queue.appendleft(event.event_id)
        else:
            self._queue.append(event.event_id)

    def _until(self, event: Event, deadline_ms: int, *, same_lease: bool = False) -> None:
        self._leases += 1
        event.deadline_ms, event.extended_as = deadline_ms, self._leases
        if not same_lease:
            event.leased_as = self._leases

    # Deliveries.

    def predicted(self) -> Iterator[Delivery]:
        """The deliveries that must come now, if the window holds everything."""
        queue, line, credit = deque(self._queue), deque(self._line), dict(self.credit)
        while queue and line:
            subscriber = line.popleft()
            credit[subscriber] -= 1
            if credit[subscriber]:
                line.append(subscriber)
            event = self.events[queue.popleft()]
            yield Delivery(subscriber, event.event_id, event.attempt + 1)

    def delivered(self, deliveries: list[Delivery], now_ms: int) -> None:
        """Check the deliveries that came, and take note of them."""
        if self._exact:
            predicted = list(self.predicted())
            assert deliveries == predicted, f"{deliveries} came, and not {predicted}"
        for subscriber, event_id, attempt in deliveries:
            event = self.events[event_id]
            assert event.place == WAITING, f"{event_id} was delivered while it was {event.place}"
            assert self.credit[subscriber] > 0, f"{event_id} was delivered without credit"
            assert attempt == event.attempt + 1
            if not event.leased_as:
                assert event.number == self._fresh, "first deliveries come in the order of arrival, without a gap"
                self._fresh += 1
            self._take(subscriber, event)
            event.place, event.attempt, event.holder = IN_FLIGHT, attempt, subscriber
            self._until(event, now_ms + self._lease_ms)

    def _take(self, subscriber: int, event: Event) -> None:
        self.credit[subscriber] -= 1
        self._line.remove(subscriber)
        if self.credit[subscriber]:
            self._line.append(subscriber)
        if event.event_id in self._queue:
            self._queue.remove(event.event_id)

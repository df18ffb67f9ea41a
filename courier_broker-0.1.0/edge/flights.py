"""What is on its way: rows that were sent, and what is known of each until the outbox has noted it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from edge.answers import LineLost, Refused, Stored
from edge.store import Row


@dataclass(slots=True)
class Flight:
    """A row that was sent."""

    row: Row
    sent_at_ms: int
    answer: Stored | Refused | None = None


@dataclass
class Flights:
    """The rows in flight, in the order in which they were sent; a row leaves when the outbox has noted its answer."""

    by_id: dict[str, Flight] = field(default_factory=dict)
    unanswered: int = 0
    unanswered_bytes: int = 0
    answered: list[Flight] = field(default_factory=list)
    """Those whose answer the outbox has not noted yet."""
    strangers: int = 0
    """Answers to what was not asked: for events that are not in flight, or answered already."""

    def sent(self, row: Row, at_ms: int) -> None:
        """A row is about to go out."""
        self.by_id[row.event_id] = Flight(row, at_ms)
        self.unanswered += 1
        self.unanswered_bytes += len(row.payload_json)

    def answer(self, answer: Stored | Refused) -> Flight | None:
        """Match an answer with its row; None when it is no row's. Raise LineLost when it could be one of several.

        A refusal without an id is about the one row that is unanswered, if there is one. Among several it is not
        guessed: they are sent again one by one.
        """
        event_id = answer.event_id
        if event_id is None and isinstance(answer, Refused):
            waiting = list(self.open_flights())
            if len(waiting) != 1:
                reason = f"a refusal that does not say which event it is about: {answer.reason}"
                raise LineLost(reason, answer.retry_after_seconds, ambiguous=True)
            event_id = waiting[0].row.event_id
        flight = self.by_id.get(event_id or "")
        if flight is None or flight.answer is not None:
            self.strangers += 1
            return None
        flight.answer = answer
        self.answered.append(flight)
        self.unanswered -= 1
        self.unanswered_bytes -= len(flight.row.payload_json)
        return flight

    def open_flights(self) -> Iterator[Flight]:
        """Those that are unanswered, the oldest first."""
        return (flight for flight in self.by_id.values() if flight.answer is None)

    def take_answered(self) -> list[Flight]:
        """Those to note; they stay in flight until `landed`."""
        taken, self.answered = self.answered, []
        return taken

    def landed(self, flights: list[Flight]) -> None:
        """The outbox has noted these."""
        for flight in flights:
            del self.by_id[flight.row.event_id]

    def clear(self) -> list[Flight]:
        """Nothing is in flight any more; those that were unanswered."""
        unanswered = list(self.open_flights())
        self.by_id.clear()
        self.answered.clear()
        self.unanswered = self.unanswered_bytes = 0
        return unanswered

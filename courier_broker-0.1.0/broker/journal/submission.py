"""What is handed to the writer, and what comes back."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import apsw

from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, InvalidEnvelope

Job = Callable[[apsw.Connection], Any]
"""Work for the write connection inside a group commit. It runs in a savepoint: if it raises, only it is undone."""


def together(*jobs: Job | None) -> Job | None:
    """Those jobs that there are as one; None if there are none."""
    found = [job for job in jobs if job is not None]
    if len(found) <= 1:
        return found[0] if found else None

    def run(connection: apsw.Connection) -> None:
        for job in found:
            job(connection)

    return run


_NO_REFUSALS: Mapping[int, CourierError] = MappingProxyType({})


class Receipts:
    """What became of the events of one submission, in their order."""

    __slots__ = ("_refusals", "duplicates", "job_result", "seqs")

    def __init__(
        self,
        seqs: Sequence[int],
        duplicates: dict[int, tuple[int, bool]],
        job_result: Any = None,
        refusals: Mapping[int, CourierError] = _NO_REFUSALS,
    ) -> None:
        self.seqs = seqs
        """The sequence of each event; negative for a duplicate (of the event with that sequence); 0 if refused,
        or left out because its cause is not new."""
        self.duplicates = duplicates
        """For the position of each duplicate: when its original was received, and whether the payload differs."""
        self.job_result = job_result
        """What the job returned."""
        self._refusals = refusals

    def refuse(self, refusals: Mapping[int, CourierError]) -> None:
        """Say why events, whose sequences are 0, were refused, by their position."""
        self._refusals = refusals

    def first(self, count: int) -> "Receipts":
        """The receipts of the first events alone."""
        if count == len(self.seqs):
            return self
        duplicates = {position: each for position, each in self.duplicates.items() if position < count}
        return Receipts(self.seqs[:count], duplicates, self.job_result, self._refusals)

    def refusal(self, position: int) -> CourierError:
        """Why the event at this position, whose sequence is 0, was refused."""
        return self._refusals.get(position) or InvalidEnvelope(
            "the event cannot be stored: a value is past the limits of the journal"
        )


class Submission:
    """Events of one producer that are committed together, with the callback that learns the outcome.

    `done` is called on the loop, once, after the commit (with Receipts) or when it is certain that
    there will be none (with an error). `job` runs after the events, in the same transaction. The last
    events may be effects of earlier ones: `causes` has the position of the cause of each. With `effects`,
    what is registered for the producer's own events is done too, before the job.
    """

    __slots__ = ("causes", "done", "effects", "events", "job")

    def __init__(
        self,
        events: Sequence[InboundEvent],
        done: Callable[[Receipts | CourierError | Exception], None],
        job: Job | None = None,
        causes: Sequence[int] = (),
        effects: bool = False,
    ) -> None:
        self.events = events
        self.done = done
        self.job = job
        self.causes = causes
        self.effects = effects

    @property
    def own(self) -> int:
        """How many events are the producer's own."""
        return len(self.events) - len(self.causes)

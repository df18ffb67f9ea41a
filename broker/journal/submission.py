"""What is handed to the writer, and what comes back."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import apsw

from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, InvalidEnvelope

Job = Callable[[apsw.Connection], Any]
"""Work for the write connection inside a group commit. It runs in a savepoint: if it raises, only it is undone."""

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
        """The sequence of each event; negative for a duplicate (of the event with that sequence); 0 if refused."""
        self.duplicates = duplicates
        """For the position of each duplicate: when its original was received, and whether the payload differs."""
        self.job_result = job_result
        """What the job returned."""
        self._refusals = refusals

    def refusal(self, position: int) -> CourierError:
        """Why the event at this position, whose sequence is 0, was refused."""
        return self._refusals.get(position) or InvalidEnvelope(
            "the event cannot be stored: a value is past the limits of the journal"
        )


class Submission:
    """Events of one producer that are committed together, with the callback that learns the outcome.

    `done` is called on the loop, once, after the commit (with Receipts) or when it is certain that
    there will be none (with an error). `job` runs after the events, in the same transaction. With `effects`,
    so do those that are registered for the events, before the job.
    """

    __slots__ = ("done", "effects", "events", "job")

    def __init__(
        self,
        events: Sequence[InboundEvent],
        done: Callable[[Receipts | CourierError | Exception], None],
        job: Job | None = None,
        effects: bool = False,
    ) -> None:
        self.events = events
        self.done = done
        self.job = job
        self.effects = effects

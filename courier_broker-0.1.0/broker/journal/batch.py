"""One group commit: the submissions that go to the disk together."""

from collections.abc import Iterator, Mapping
from typing import Any

from _fast import Written
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError
from broker.journal.statements import Change
from broker.journal.submission import Receipts, Submission


class Batch:
    """Submissions, the state changes that ride along, and, after the commit, what became of them."""

    __slots__ = ("changes", "error", "events", "job_results", "refusals", "submissions", "written")

    def __init__(self, submissions: list[Submission], changes: list[Change]) -> None:
        self.submissions = submissions
        self.changes = changes
        self.events: list[InboundEvent] = (
            list(submissions[0].events) if len(submissions) == 1 else [e for s in submissions for e in s.events]
        )
        self.written: Written | None = None
        self.error: CourierError | None = None
        self.job_results: dict[int, Any] = {}
        self.refusals: dict[int, CourierError] = {}
        """Why events were taken out again, by their place among all of the batch."""

    @property
    def stays_open(self) -> bool:
        """Whether a submission brought a job or has effects, so that the transaction must stay open for them."""
        return any(submission.job is not None or submission.effects for submission in self.submissions)

    def with_effects(self, written: Written) -> Iterator[tuple[int, InboundEvent]]:
        """The new events that were submitted with effects, with their sequences; not what rules made of them."""
        start = 0
        for submission in self.submissions:
            if submission.effects:
                seqs, events = written.seqs[start : start + submission.own], submission.events[: submission.own]
                yield from ((seq, event) for seq, event in zip(seqs, events, strict=True) if seq > 0)
            start += len(submission.events)

    def take_out(self, written: Written, failed: Mapping[int, CourierError]) -> None:
        """Count events that were taken out again as refused, and with them their duplicates in this batch."""
        if not failed:
            self.refusals = {}
            return
        seqs = written.seqs
        self.refusals = {at: failed[abs(seq)] for at, seq in enumerate(seqs) if abs(seq) in failed}
        for at in self.refusals:
            seqs[at] = 0
            written.duplicates.pop(at, None)

    def causes(self) -> list[int] | None:
        """The index of each event's cause, -1 for none; None when no event has one."""
        if not any(submission.causes for submission in self.submissions):
            return None
        causes: list[int] = []
        for submission in self.submissions:
            start = len(causes)
            causes += [-1] * submission.own
            causes += [cause if cause < 0 else start + cause for cause in submission.causes]
        return causes

    def new_events(self) -> list[tuple[int, InboundEvent]]:
        """The events that were not there before, with their sequences, in order."""
        if self.written is None:
            return []
        return [(seq, event) for seq, event in zip(self.written.seqs, self.events, strict=True) if seq > 0]

    def answer(self) -> None:
        """Tell every submission what became of it."""
        if self.written is None:
            error = self.error
            assert error is not None, "a batch is answered after it was committed or refused"
            for submission in self.submissions:
                submission.done(error)
            return
        seqs, duplicates = self.written.seqs, self.written.duplicates
        start = 0
        for index, submission in enumerate(self.submissions):
            end = start + len(submission.events)
            job_result = self.job_results.get(index)
            if isinstance(job_result, Exception):
                submission.done(job_result)
            else:
                own = {at - start: duplicates[at] for at in range(start, end) if at in duplicates} if duplicates else {}
                receipts = Receipts(seqs[start:end], own, job_result)
                if self.refusals:
                    receipts.refuse({at - start: self.refusals[at] for at in range(start, end) if at in self.refusals})
                submission.done(receipts)
            start = end

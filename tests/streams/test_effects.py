"""Effects of events, where causes and effects are in memory or on disk."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from broker.clock import ManualClock
from broker.config import StreamCaps, Streams
from broker.contracts.inbound import InboundEvent
from broker.errors import CourierError, DiskFull, OverQuota, Saturated
from broker.journal.submission import Job, Receipts
from broker.streams.memory import Intake
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger


class Journal:
    """Commits at once, as the real one decides: an effect only if its cause, an earlier event, is new."""

    def __init__(self) -> None:
        self.seqs: dict[str, int] = {}
        self.refusal: CourierError | None = None
        self.raises: CourierError | None = None
        self.submissions: list[list[str]] = []
        self.extras: list[tuple[Job | None, bool]] = []
        self.refused: dict[str, CourierError] = {}
        """Why single events are refused, by their names."""

    def submit_events(
        self,
        events: Sequence[InboundEvent],
        done: Callable[..., None],
        causes: Sequence[int] = (),
        job: Job | None = None,
        effects: bool = False,
    ) -> None:
        if self.raises is not None:
            raise self.raises
        self.extras.append((job, effects))
        self.submissions.append([event.source_event_id for event in events])
        if self.refusal is not None:
            done(self.refusal)
            return
        seqs: list[int] = []
        duplicates: dict[int, tuple[int, bool]] = {}
        refusals: dict[int, CourierError] = {}
        for position, event in enumerate(events):
            own = len(events) - len(causes)
            cause = causes[position - own] if position >= own else -1
            if cause >= 0 and seqs[cause] <= 0:
                seqs.append(0)
            elif event.source_event_id in self.refused:
                refusals[position] = self.refused[event.source_event_id]
                seqs.append(0)
            elif event.source_event_id in self.seqs:
                seqs.append(-self.seqs[event.source_event_id])
                duplicates[position] = (0, False)
            else:
                self.seqs[event.source_event_id] = len(self.seqs) + 1
                seqs.append(len(self.seqs))
        done(Receipts(seqs, duplicates, None if job is None else "done", refusals))


@pytest.fixture
async def registry(clock: ManualClock, ledger: FakeLedger) -> AsyncIterator[Registry]:
    caps = {"memory/**": StreamCaps(durability="memory"), "memory/full": StreamCaps(max_depth=1)}
    registry = Registry(Streams(per_stream_caps=caps), clock, ledger)
    yield registry
    await registry.close()


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def intake(journal: Journal, registry: Registry) -> Intake:
    return Intake(journal, registry, 10_000)


def event(name: str) -> InboundEvent:
    """`m…` is in memory, `d…` on disk, `f…` on a stream in memory that takes one event."""
    stream = {"m": "memory/s", "d": "disk", "f": "memory/full"}[name[0]]
    return InboundEvent("courier", stream, "t", f"stream:{stream}", name, 0, b"{}", b"")


def submit(intake: Intake, *named: str) -> tuple[list[str], Receipts]:
    """`m1` is an event, `d2<m1` an effect of another; what is new of them, and the receipts."""
    names = [name.partition("<")[0] for name in named]
    causes = [names.index(name.partition("<")[2]) for name in named if "<" in name]
    outcomes: list[Any] = []
    intake.submit_events([event(name) for name in names], outcomes.append, causes)
    (receipts,) = outcomes
    assert isinstance(receipts, Receipts), receipts
    return [name for name, seq in zip(names, receipts.seqs, strict=True) if seq > 0], receipts


@pytest.mark.parametrize(
    "named",
    [
        ("m1", "m2<m1"),
        ("m1", "d1<m1"),
        ("d1", "m1<d1"),
        ("m1", "d1<m1", "m2<d1", "d2<m2", "m3<d2"),
        ("d1", "m1<d1", "d2<m1", "m2<d2", "d3<m2"),
        ("d1", "m1", "d2<d1", "m2<m1", "d3<m1", "m3<d1", "d4<m3", "m4<d3"),
    ],
)
def test_effects_come_with_their_causes_and_never_again(intake: Intake, named: tuple[str, ...]) -> None:
    new, _ = submit(intake, *named)
    assert new == [name.partition("<")[0] for name in named]
    for _ in range(2):
        # The same causes with effects that were never seen: a rule may have been added since.
        again = [name if "<" not in name else name.replace(name[0], name[0] + "x", 1) for name in named]
        again = [name.partition("<")[0] + ("<" + _cause(name, named) if "<" in name else "") for name in again]
        new, receipts = submit(intake, *again)
        assert new == []
        assert [seq < 0 for seq in receipts.seqs] == ["<" not in name for name in named]


def _cause(name: str, named: tuple[str, ...]) -> str:
    """The cause of an effect, under the name that it has when it is sent again."""
    cause = name.partition("<")[2]
    is_own = any(each == cause for each in named)
    return cause if is_own else cause[0] + "x" + cause[1:]


def test_effects_of_a_refused_event_are_left_out(intake: Intake, journal: Journal) -> None:
    submit(intake, "f1")
    new, receipts = submit(intake, "f2", "m3", "m1<f2", "d1<f2", "m2<d1")
    assert new == ["m3"]
    assert isinstance(receipts.refusal(0), OverQuota)
    assert journal.seqs == {}


def test_an_effect_that_is_refused_leaves_its_cause_alone(intake: Intake) -> None:
    submit(intake, "f1")
    new, receipts = submit(intake, "d1", "f2<d1", "m1<f2", "d2<d1")
    assert new == ["d1", "d2"]
    assert isinstance(receipts.refusal(1), OverQuota)


@pytest.mark.parametrize("at_once", [True, False])
def test_what_the_journal_refuses_of_the_effects_of_memory_leaves_their_causes_alone(
    intake: Intake, journal: Journal, at_once: bool
) -> None:
    if at_once:
        journal.raises = Saturated("full")
    else:
        journal.refusal = DiskFull("full")
    new, receipts = submit(intake, "m1", "d1<m1", "m2<d1", "m3<m1")
    assert new == ["m1", "m3"]
    assert receipts.refusal(1) in (journal.raises, journal.refusal)


def test_what_the_journal_refuses_of_the_producer_is_refused_whole(intake: Intake, journal: Journal) -> None:
    journal.refusal = DiskFull("full")
    outcomes: list[Any] = []
    intake.submit_events([event("m1"), event("d1"), event("m2")], outcomes.append, [0])
    assert outcomes == [journal.refusal]
    journal.refusal = None
    new, _ = submit(intake, "m1", "d1", "m2<m1")
    assert new == ["m1", "d1", "m2"]


def test_durable_causes_and_effects_are_one_submission(intake: Intake, journal: Journal) -> None:
    submit(intake, "d1", "m1", "d2<d1", "d3<d2", "d4<m1", "m2<d3")
    assert journal.submissions == [["d1", "d2", "d3"], ["d4"]]


def job(_connection: object) -> None:
    """A job, which the journal here does not run."""


@pytest.mark.parametrize(
    ("names", "causes", "submissions"),
    [
        (["d1", "d2"], [0], [["d1", "d2"]]),
        (["d1", "m1", "d2"], [0, 1], [["d1"], ["d2"]]),
        (["m1", "d1"], [0], [[], ["d1"]]),
        (["m1"], [], [[]]),
        ([], [], [[]]),
    ],
)
def test_a_job_and_what_is_registered_belong_to_the_first_commit_and_to_no_other(
    intake: Intake, journal: Journal, names: list[str], causes: list[int], submissions: list[list[str]]
) -> None:
    outcomes: list[Any] = []
    intake.submit_events([event(name) for name in names], outcomes.append, causes, job, effects=True)
    assert journal.submissions == submissions
    assert journal.extras == [(job, True), *[(None, False)] * (len(submissions) - 1)]
    (receipts,) = outcomes
    assert (len(receipts.seqs), min(receipts.seqs, default=1) > 0, receipts.job_result) == (len(names), True, "done")


def test_a_job_that_the_journal_refuses_keeps_out_what_came_with_it(intake: Intake, journal: Journal) -> None:
    journal.refusal = DiskFull("full")
    outcomes: list[Any] = []
    intake.submit_events([event("m1")], outcomes.append, job=job)
    assert outcomes == [journal.refusal]
    journal.refusal = None
    assert submit(intake, "m1")[0] == ["m1"]


def test_why_the_journal_refused_one_event_of_a_mixture_is_told(intake: Intake, journal: Journal) -> None:
    journal.refused["d1"] = DiskFull("not this one")
    new, receipts = submit(intake, "d1", "d2", "m1<d1", "m2<d2")
    assert new == ["d2", "m2"]
    assert receipts.refusal(0) is journal.refused["d1"]


def test_without_an_event_the_journal_keeps_the_place_in_the_order(intake: Intake, journal: Journal) -> None:
    assert submit(intake)[0] == []
    assert journal.submissions == [[]]

"""Streams that are only in memory, beside streams that are on disk."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from broker.clock import ManualClock
from broker.config import StreamCaps, Streams
from broker.contracts.inbound import InboundEvent
from broker.errors import OverQuota, Saturated
from broker.journal.submission import Job, Receipts
from broker.streams.entry import MEMORY_SEQ_FIRST
from broker.streams.memory import Intake
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger, Inbox

DEPTH = 3


class SlowJournal:
    """Takes submissions, and commits them when it is told to."""

    def __init__(self, ledger: FakeLedger, registry: Registry) -> None:
        self._ledger = ledger
        self._registry = registry
        self.waiting: list[tuple[Sequence[InboundEvent], Callable[..., None]]] = []
        self.full = False

    def submit_events(
        self,
        events: Sequence[InboundEvent],
        done: Callable[..., None],
        causes: Sequence[int] = (),
        job: Job | None = None,
        effects: bool = False,
    ) -> None:
        assert not causes
        assert (job, effects) == (None, False)
        if self.full:
            raise Saturated("full")
        self.waiting.append((events, done))

    def commit(self, failure: Exception | None = None) -> None:
        events, done = self.waiting.pop(0)
        if failure is not None:
            done(failure)
            return
        rows = [self._ledger.write(event.stream, event.source_event_id) for event in events]
        self._registry.committed(rows)
        done(Receipts([seq for seq, _ in rows], {}))


@pytest.fixture
async def registry(clock: ManualClock, ledger: FakeLedger) -> AsyncIterator[Registry]:
    caps = {"memory/**": StreamCaps(durability="memory", max_depth=DEPTH)}
    registry = Registry(Streams(default_lease_ms=1000, max_deliveries=2, per_stream_caps=caps), clock, ledger)
    yield registry
    await registry.close()


@pytest.fixture
def journal(ledger: FakeLedger, registry: Registry) -> SlowJournal:
    return SlowJournal(ledger, registry)


@pytest.fixture
def intake(journal: SlowJournal, registry: Registry) -> Intake:
    return Intake(journal, registry, 10_000)


def event(stream: str, event_id: str) -> InboundEvent:
    return InboundEvent("courier", stream, "t", f"stream:{stream}", event_id, 0, b"{}", b"")


def submit(intake: Intake, *events: InboundEvent) -> list[Any]:
    outcomes: list[Any] = []
    intake.submit_events(events, outcomes.append)
    return outcomes


async def test_an_event_in_memory_is_answered_and_delivered_at_once(
    intake: Intake, registry: Registry, journal: SlowJournal
) -> None:
    inbox = Inbox()
    subscription = registry.subscribe("memory/s", inbox)
    registry.grant(subscription, 10)
    (receipts,) = submit(intake, event("memory/s", "a"), event("memory/s", "b"))
    assert receipts.seqs == [MEMORY_SEQ_FIRST, MEMORY_SEQ_FIRST + 1]
    assert inbox.deliveries == [("a", 1), ("b", 1)]
    registry.ack(subscription, "a")
    registry.nack(subscription, "b")
    assert inbox.deliveries[2:] == [("b", 2)]
    assert journal.waiting == []
    assert registry.find("memory/s").pending == 1


async def test_a_duplicate_is_answered_with_the_sequence_of_its_original(intake: Intake, registry: Registry) -> None:
    submit(intake, event("memory/s", "a"))
    (receipts,) = submit(intake, event("memory/s", "b"), event("memory/s", "a"), event("memory/other", "a"))
    assert receipts.seqs == [MEMORY_SEQ_FIRST + 1, -MEMORY_SEQ_FIRST, MEMORY_SEQ_FIRST + 2]
    assert list(receipts.duplicates) == [1]
    assert registry.find("memory/s").pending == 2


async def test_a_full_stream_refuses_and_takes_the_same_event_when_there_is_room(
    intake: Intake, registry: Registry
) -> None:
    (receipts,) = submit(intake, *(event("memory/s", f"e{number}") for number in range(DEPTH + 1)))
    assert receipts.seqs[-1] == 0
    assert 0 not in receipts.seqs[:DEPTH]
    refusal = receipts.refusal(DEPTH)
    assert isinstance(refusal, OverQuota)
    assert refusal.detail == {"stream": "memory/s"}
    inbox = Inbox()
    subscription = registry.subscribe("memory/s", inbox)
    registry.grant(subscription, 1)
    registry.ack(subscription, "e0")
    (receipts,) = submit(intake, event("memory/s", f"e{DEPTH}"))
    assert receipts.seqs[0] > 0
    assert receipts.duplicates == {}


async def test_a_mixture_is_answered_in_order_after_the_commit(
    intake: Intake, registry: Registry, journal: SlowJournal
) -> None:
    outcomes = submit(intake, event("disk", "a"), event("memory/s", "b"), event("disk", "c"), event("memory/s", "b"))
    assert outcomes == []
    assert registry.find("memory/s").pending == 0
    journal.commit()
    assert [receipts.seqs for receipts in outcomes] == [[1, MEMORY_SEQ_FIRST, 2, -MEMORY_SEQ_FIRST]]
    assert list(outcomes[0].duplicates) == [3]
    assert registry.find("memory/s").pending == 1


async def test_a_mixture_whose_commit_fails_is_refused_whole(
    intake: Intake, registry: Registry, journal: SlowJournal
) -> None:
    failure = OSError("the disk")
    outcomes = submit(intake, event("disk", "a"), event("memory/s", "b"))
    journal.commit(failure)
    assert outcomes == [failure]
    assert registry.find("memory/s").pending == 0
    journal.full = True
    with pytest.raises(Saturated):
        submit(intake, event("disk", "a"), event("memory/s", "b"))
    assert registry.find("memory/s").pending == 0


async def test_without_streams_in_memory_everything_goes_to_the_journal(clock: ManualClock, ledger: FakeLedger) -> None:
    registry = Registry(Streams(), clock, ledger)
    journal = SlowJournal(ledger, registry)
    assert submit(Intake(journal, registry, 10_000), event("memory/s", "a")) == []
    assert len(journal.waiting) == 1


async def test_an_event_in_memory_that_is_given_up_is_counted_and_said(
    intake: Intake, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    subscription = registry.subscribe("memory/s", Inbox())
    registry.grant(subscription, 2)
    submit(intake, event("memory/s", "a"))
    registry.nack(subscription, "a")
    with caplog.at_level(logging.WARNING, "broker.streams.registry"):
        registry.nack(subscription, "a")
    assert "event a of stream memory/s, which is in memory only, is dropped: refused by its consumer" in caplog.text
    stream = registry.find("memory/s")
    assert (stream.counters.dead, stream.pending, stream.ring.held) == (1, 0, 0)


async def test_what_the_ledger_still_has_of_a_stream_that_is_in_memory_now_is_delivered_too(
    intake: Intake, registry: Registry, ledger: FakeLedger
) -> None:
    ledger.write_all("memory/s", "old-1", "old-2")
    registry.recover("memory/s", 2, 2)
    submit(intake, event("memory/s", "new"))
    inbox = Inbox()
    subscription = registry.subscribe("memory/s", inbox)
    for _ in range(3):
        registry.grant(subscription, 1)
        while registry._dispatcher.catch_up.tasks:
            for task in tuple(registry._dispatcher.catch_up.tasks):
                await task
        registry.ack(subscription, inbox.ids[-1])
    assert sorted(inbox.ids) == ["new", "old-1", "old-2"]
    assert [row.state for row in ledger.rows] == ["processed", "processed"]
    assert registry.find("memory/s").pending == 0

"""Appending: what is answered, when, and what the ledger then holds."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from broker.clock import ManualClock
from broker.errors import ConfigError, Saturated, StorageFailed
from broker.journal.journal import Journal
from broker.journal.submission import Submission
from tests.journal.conftest import OpenJournal, event, rows, until
from tests.support.streams import acked


async def test_new_events_get_consecutive_sequences_in_their_order(journal: Journal) -> None:
    receipts = await journal.append([event("a"), event("b"), event("c")])
    assert receipts.seqs == [1, 2, 3]
    assert receipts.duplicates == {}


async def test_a_duplicate_names_the_sequence_and_the_time_of_its_original(journal: Journal) -> None:
    await journal.append([event("a", at=1_000_000)])
    receipts = await journal.append([event("b"), event("a", at=2_000_000)])
    assert receipts.seqs == [2, -1]
    assert receipts.duplicates == {1: (1_000_000, False)}


async def test_a_duplicate_within_one_batch_is_a_duplicate_of_the_first(journal: Journal) -> None:
    receipts = await journal.append([event("a"), event("a"), event("a", envelope=b"{}")])
    assert receipts.seqs == [1, -1, -1]
    assert receipts.duplicates == {1: (1_000_000, False), 2: (1_000_000, True)}


async def test_a_conflicting_payload_is_counted_and_overwrites_nothing(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event("a", envelope=b'{"n":1}')])
    await journal.append([event("a", envelope=b'{"n":2}', at=5_000_000)])
    assert rows(
        tmp_path,
        "SELECT envelope, ingest_attempt_count, duplicate_count, payload_conflict_count, ingest_first_seen_at, "
        "ingest_last_seen_at FROM ledger",
    ) == [(b'{"n":1}', 2, 1, 1, 1_000_000, 5_000_000)]


async def test_the_same_id_in_two_streams_is_two_events(journal: Journal) -> None:
    receipts = await journal.append([event("a", stream="x"), event("a", stream="y")])
    assert receipts.seqs == [1, 2]


async def test_a_duplicate_does_not_bring_a_dead_letter_back(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event("a")])
    journal.dead_letter(1, 10, 7, "poison")
    receipts = await journal.append([event("a")])
    assert receipts.seqs == [-1]
    assert rows(tmp_path, "SELECT process_state, process_error, duplicate_count FROM ledger") == [
        ("dead_letter", "poison", 1)
    ]


async def test_every_field_of_an_event_is_stored_as_it_came(journal: Journal, tmp_path: Path) -> None:
    envelope = b'{ "n" : 123456789012345678901234567890, "n": "\xc3\xa4", "z":null }'
    more = {
        "source_sequence": 7, "source_emitted_at": "2026-02-19T18:14:02Z", "correlation_id": "c-1", "event_id": "pc-1",
        "dedupe_key": "k" * 64, "schema_version": "2026-02-19.1", "transport_attempt": 3,
    }  # fmt: skip
    await journal.append([event("ä-1", envelope=envelope, **more)])
    assert rows(
        tmp_path,
        "SELECT envelope, source_event_id, source_sequence, source_emitted_at, correlation_id, event_id, dedupe_key, "
        "dedupe_scope, event_name, schema_version, last_transport_attempt, process_state FROM ledger",
    ) == [
        (
            envelope,
            "ä-1",
            7,
            "2026-02-19T18:14:02Z",
            "c-1",
            "pc-1",
            "k" * 64,
            "stream:s",
            "t",
            "2026-02-19.1",
            3,
            "pending",
        )
    ]


async def test_an_answer_comes_only_after_the_commit(journal: Journal, tmp_path: Path) -> None:
    seen: list[int] = []

    def done(_outcome: Any) -> None:
        seen.append(len(rows(tmp_path, "SELECT seq FROM ledger")))

    journal.submit(Submission([event("a")], done))
    journal.submit(Submission([event("a")], done))
    await journal.append([event("b")])
    assert len(seen) == 2
    assert min(seen) >= 1


async def test_new_events_reach_the_streams_once_and_in_order(journal: Journal) -> None:
    arrived: list[tuple[int, str]] = []
    journal.on_events = lambda events: arrived.extend((seq, e.source_event_id) for seq, e in events)
    await journal.append([event("a"), event("b")])
    await journal.append([event("a"), event("c")])
    assert arrived == [(1, "a"), (2, "b"), (3, "c")]


class HeldWriter:
    """Keeps the writer busy inside a transaction until it is let go."""

    def __init__(self, journal: Journal) -> None:
        self._go = threading.Event()
        self.entered = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(journal.execute(self._hold))

    def _hold(self, _connection: apsw.Connection) -> None:
        self._loop.call_soon_threadsafe(self.entered.set)
        self._go.wait()

    async def let_go(self) -> None:
        self._go.set()
        await self._task


async def test_submissions_that_wait_for_the_disk_are_committed_together(journal: Journal) -> None:
    held = HeldWriter(journal)
    await held.entered.wait()
    commits = journal.health.commits
    appends = [asyncio.ensure_future(journal.append([event(f"e{n}")])) for n in range(100)]
    await until(lambda: journal.queued == 100)
    await held.let_go()
    receipts = await asyncio.gather(*appends)
    assert [r.seqs[0] for r in receipts] == list(range(1, 101))
    assert journal.health.commits == commits + 2


@pytest.mark.parametrize(("queued", "accepted"), [(9, True), (10, False)])
async def test_a_full_queue_refuses_and_counts_it(open_journal: OpenJournal, queued: int, accepted: bool) -> None:
    journal = await open_journal(queue_max=10)
    held = HeldWriter(journal)
    await held.entered.wait()
    answers: list[Any] = []
    for n in range(queued):
        journal.submit(Submission([event(f"e{n}")], answers.append))
    if accepted:
        journal.submit(Submission([event("one more")], answers.append))
    else:
        with pytest.raises(Saturated, match="10 events wait"):
            journal.submit(Submission([event("one more")], answers.append))
    assert journal.health.saturations == (0 if accepted else 1)
    await held.let_go()
    await journal.append([event("later")])
    assert len(answers) == 10


async def test_an_in_process_caller_waits_for_room(open_journal: OpenJournal) -> None:
    journal = await open_journal(queue_max=1)
    held = HeldWriter(journal)
    await held.entered.wait()
    appends = [asyncio.ensure_future(journal.append([event(f"e{n}")])) for n in range(20)]
    await until(lambda: journal.health.saturations)
    assert journal.queued == 1
    await held.let_go()
    assert sorted(r.seqs[0] for r in await asyncio.gather(*appends)) == list(range(1, 21))


async def test_more_events_than_the_queue_holds_go_into_an_empty_queue(open_journal: OpenJournal) -> None:
    journal = await open_journal(queue_max=10)
    receipts = await journal.append([event(f"e{n}") for n in range(25)])
    assert receipts.seqs == list(range(1, 26))


async def test_a_job_runs_in_the_transaction_of_its_events(journal: Journal) -> None:
    def job(connection: apsw.Connection) -> int:
        found: int = connection.execute("SELECT count(*) FROM ledger").get
        return found

    assert (await journal.append([event("a"), event("b")], job)).job_result == 2


async def test_a_job_that_fails_is_undone_alone_and_its_submitter_is_told(journal: Journal, tmp_path: Path) -> None:
    def job(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO marks VALUES ('half', 1)")
        raise ValueError("no good")

    beside = asyncio.ensure_future(journal.append([event("beside")]))
    with pytest.raises(ValueError, match="no good"):
        await journal.execute(job)
    assert (await beside).seqs == [1]
    assert rows(tmp_path, "SELECT * FROM marks") == []


async def test_state_changes_are_written_without_any_event(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event("a"), event("b"), event("c")])
    journal.processed(acked(1, 1))
    journal.dead_letter(2, 10, 5, "poison")
    await journal.close()
    assert rows(tmp_path, "SELECT seq, process_state, process_attempts, process_error FROM ledger") == [
        (1, "processed", 1, None),
        (2, "dead_letter", 10, "poison"),
        (3, "pending", 0, None),
    ]


async def test_closing_commits_and_answers_what_was_submitted(journal: Journal) -> None:
    answers: list[Any] = []
    for n in range(50):
        journal.submit(Submission([event(f"e{n}")], answers.append))
    await journal.close()
    assert [receipts.seqs for receipts in answers] == [[n] for n in range(1, 51)]
    with pytest.raises(StorageFailed, match="closed"):
        journal.submit(Submission([event("late")], answers.append))


async def test_sequences_go_on_where_they_ended_after_a_restart(open_journal: OpenJournal) -> None:
    first = await open_journal()
    await first.append([event("a"), event("b")])
    await first.close()
    second = await open_journal()
    receipts = await second.append([event("b"), event("c")])
    assert receipts.seqs == [-2, 3]
    assert second.backlog.pending == 2


async def test_a_second_journal_on_the_same_directory_is_refused(journal: Journal, open_journal: OpenJournal) -> None:
    with pytest.raises(ConfigError, match="another broker"):
        await open_journal()


async def test_a_lingering_writer_gathers_what_comes_within_its_time(open_journal: OpenJournal) -> None:
    journal = await open_journal(linger_ms=200)
    first = asyncio.ensure_future(journal.append([event("a")]))
    await until(lambda: journal.queued)
    second = asyncio.ensure_future(journal.append([event("b")]))
    await asyncio.gather(first, second)
    assert journal.health.commits == 1


async def test_an_event_that_sqlite_refuses_does_not_take_the_others_with_it(
    journal: Journal, clock: ManualClock
) -> None:
    broken = event("broken")._replace(payload_sha256=b"short")
    receipts = await journal.append([event("a"), broken, event("b")])
    assert receipts.seqs == [1, 0, 2]


async def test_a_delivery_in_vain_is_counted_and_the_event_stays_pending(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await journal.append([event("a"), event("b")])
    journal.attempted(1, 1, 5)
    journal.attempted(1, 2, 9)
    await journal.execute(lambda _connection: None)
    monkeypatch.setattr("broker.journal.journal.STATE_CHANGES_MAX", 0)
    journal.attempted(2, 1, 5)
    journal.processed(acked(1, 3))
    await journal.execute(lambda _connection: None)
    columns = "process_state, process_attempts, process_first_attempt_at"
    assert rows(tmp_path, f"SELECT {columns} FROM ledger ORDER BY seq") == [("processed", 3, 5), ("pending", 0, None)]

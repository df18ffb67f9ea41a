"""Effects of events, in one commit with their causes, whichever submissions share it."""

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from broker.journal import connection, schema
from broker.journal.batch import Batch
from broker.journal.journal import Journal
from broker.journal.submission import Receipts, Submission
from tests.journal.conftest import event, rows


def test_causes_are_counted_through_the_submissions_of_a_batch() -> None:
    def submission(events: int, *causes: int) -> Submission:
        return Submission([event(str(number)) for number in range(events)], lambda _outcome: None, causes=causes)

    assert Batch([submission(2), submission(1)], []).causes() is None
    batch = Batch([submission(2), submission(3, 0), submission(1), submission(4, 1, 2), submission(1, -1)], [])
    assert batch.causes() == [-1, -1, -1, -1, 2, -1, -1, -1, 7, 8, -1]
    assert [each.own for each in batch.submissions] == [2, 2, 1, 2, 0]


async def submit(journal: Journal, *names: str, causes: tuple[int, ...] = ()) -> Receipts:
    answer: asyncio.Future[Receipts] = asyncio.get_running_loop().create_future()
    journal.submit_events([event(name) for name in names], answer.set_result, causes)
    return await answer


async def test_effects_are_new_with_their_cause_and_left_out_with_a_duplicate(journal: Journal, tmp_path: Path) -> None:
    told: list[Any] = []
    journal.on_events = lambda events: told.extend(seq for seq, _ in events)
    receipts = await asyncio.gather(
        submit(journal, "a", "of a", "of of a", causes=(0, 1)),
        submit(journal, "a", "late of a", causes=(0,)),
        submit(journal, "b", "a", "of b", "of dup", causes=(0, 1)),
    )
    assert [each.seqs for each in receipts] == [[1, 2, 3], [-1, 0], [4, -1, 5, 0]]
    assert told == [1, 2, 3, 4, 5]
    assert rows(tmp_path, "SELECT effect_seq, cause_seq FROM causes ORDER BY 1") == [(2, 1), (3, 2), (5, 4)]


async def test_room_is_asked_for_what_a_producer_sends_and_not_for_what_rules_add(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(journal, "has_room", lambda events: asked.append(events) or True)
    await submit(journal, "a", "b", "of a", "of b", causes=(0, 1))
    assert asked == [2]


def test_a_ledger_of_the_version_before_keeps_its_events_and_learns_of_causes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "courier.db"
    step = schema.MIGRATIONS.index(schema._TRIGGERS)
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:step])
        before.setattr(schema, "VERSION", step)
        writing = connection.open_writer(path, synchronous="full")
        writing.execute(
            "INSERT INTO ledger (seq, contract, stream, type, source_system, source_event_id, state_changed_at, "
            "received_at, ingest_last_seen_at, payload_sha256, envelope) "
            "VALUES (1, 'courier', 's', 't', 'stream:s', 'e-1', 1, 1, 1, zeroblob(32), x'7b7d')"
        )
        writing.close()
    writing = connection.open_writer(path, synchronous="full")
    assert writing.execute("SELECT source_event_id, received_sha256 FROM ledger").fetchall() == [("e-1", None)]
    for table in ("causes", "trigger_rules"):
        assert writing.execute(f"SELECT count(*) FROM {table}").get == 0
    with pytest.raises(apsw.ConstraintError):
        writing.execute("INSERT INTO causes VALUES (1, 99)")
    writing.close()

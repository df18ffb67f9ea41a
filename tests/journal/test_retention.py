"""Retention: only finished rows, only their contents, never their identity."""

from pathlib import Path

import pytest

from broker.clock import ManualClock
from broker.config import Retention as RetentionConfig
from broker.journal import retention
from broker.journal.journal import Journal
from broker.journal.retention import Retention
from tests.journal.conftest import event, rows
from tests.support.streams import acked

DAY_MS = 24 * 3600 * 1000


async def no_pause(_seconds: float) -> None:
    """Sweep without a break."""


@pytest.fixture
async def ledger(journal: Journal, clock: ManualClock) -> Journal:
    """Events 1–4 finished, dead, waiting, finished; a day later, 5 finished."""
    await journal.append([event(f"e{n}", at=clock.wall_us()) for n in range(1, 5)])
    journal.processed(acked(1, 1))
    journal.dead_letter(2, 10, None, "poison")
    journal.processed(acked(4, 1))
    clock.advance(DAY_MS)
    await journal.append([event("e5", at=clock.wall_us())])
    journal.processed(acked(5, 1))
    await journal.execute(lambda _connection: None)
    return journal


def emptied(directory: Path) -> list[int]:
    return [seq for (seq,) in rows(directory, "SELECT seq FROM ledger WHERE envelope IS NULL ORDER BY seq")]


async def test_finished_events_past_their_age_are_emptied_and_others_are_not(
    ledger: Journal, clock: ManualClock, tmp_path: Path
) -> None:
    sweeper = Retention(ledger, RetentionConfig(max_age_seconds=3600), clock)
    assert await sweeper.sweep(no_pause) == 2
    assert emptied(tmp_path) == [1, 4]


@pytest.mark.parametrize(("later_ms", "gone"), [(0, False), (1, True)])
async def test_an_event_goes_when_it_is_older_than_its_age_not_when_it_reaches_it(
    ledger: Journal, clock: ManualClock, tmp_path: Path, later_ms: int, gone: bool
) -> None:
    clock.advance(3600 * 1000 + later_ms)
    await Retention(ledger, RetentionConfig(max_age_seconds=3600), clock).sweep(no_pause)
    assert (5 in emptied(tmp_path)) is gone


async def test_an_emptied_event_keeps_identity_receipt_and_hash(
    ledger: Journal, clock: ManualClock, tmp_path: Path
) -> None:
    before = rows(tmp_path, "SELECT * FROM receipts WHERE event_id = 'e1'")
    await Retention(ledger, RetentionConfig(max_age_seconds=0), clock).sweep(no_pause)
    assert rows(tmp_path, "SELECT * FROM receipts WHERE event_id = 'e1'") == before
    assert rows(tmp_path, "SELECT length(payload_sha256) FROM ledger WHERE seq = 1") == [(32,)]
    assert (await ledger.append([event("e1")])).seqs == [-1]


async def test_a_file_past_its_size_is_emptied_whatever_the_age(
    ledger: Journal, clock: ManualClock, tmp_path: Path
) -> None:
    await Retention(ledger, RetentionConfig(max_bytes=1 << 40), clock).sweep(no_pause)
    assert emptied(tmp_path) == []
    await Retention(ledger, RetentionConfig(max_bytes=1), clock).sweep(no_pause)
    assert emptied(tmp_path) == [1, 4, 5]


async def test_a_sweep_starts_where_everything_before_is_empty(
    ledger: Journal, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SLICE_ROWS", 1)
    sweeper = Retention(ledger, RetentionConfig(max_age_seconds=3600), clock)
    await sweeper.sweep(no_pause)
    assert rows(tmp_path, "SELECT value FROM marks WHERE name = ?", retention.EMPTY_UP_TO) == [(1,)]
    looked_at: list[int] = []
    find = retention.find

    def spy(*arguments: object) -> retention.Slice:
        looked_at.append(arguments[1])  # type: ignore[arg-type]
        return find(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(retention, "find", spy)
    await sweeper.sweep(no_pause)
    assert looked_at[0] == 1


async def test_without_bounds_nothing_is_ever_emptied(ledger: Journal, clock: ManualClock, tmp_path: Path) -> None:
    sweeper = Retention(ledger, RetentionConfig(), clock)
    assert not sweeper.active
    await sweeper.run(no_pause)
    await sweeper.sweep(no_pause)
    assert emptied(tmp_path) == []

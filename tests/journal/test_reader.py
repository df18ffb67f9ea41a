"""Reading back: pages, order, receipts, and bytes that no longer match."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from broker.journal import reader
from broker.journal.group_queries import Registration
from broker.journal.journal import Journal
from tests.journal.conftest import OpenJournal, event, rows, until
from tests.support.streams import acked


async def test_pages_of_a_stream_come_in_order_without_gap_or_repeat(journal: Journal) -> None:
    await journal.append([event(f"e{n}", stream="x" if n % 2 else "y") for n in range(20)])
    found: list[int] = []
    after = 0
    while True:
        events, after = await journal.pending_page("x", after, 3)
        if not events:
            break
        found += [stored.seq for stored in events]
    assert found == list(range(2, 21, 2))


PAGE_OF_TWO = 2 * len(b'{"id":"e0"}')


@pytest.mark.parametrize(("page_bytes", "count"), [(PAGE_OF_TWO - 1, 2), (PAGE_OF_TWO, 2), (PAGE_OF_TWO + 1, 3)])
async def test_a_page_ends_with_the_event_that_fills_its_bytes(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, page_bytes: int, count: int
) -> None:
    await journal.append([event(f"e{n}") for n in range(5)])
    (group,) = await journal.groups.register(Registration("s", "g", 0), ["s"])
    monkeypatch.setattr("broker.journal.reader.PAGE_BYTES_MAX", page_bytes)
    for ledger in (journal, group):
        events, last_seq = await ledger.pending_page("s", 0, 10)
        assert ([stored.seq for stored in events], last_seq) == (list(range(1, count + 1)), count)
        events, last_seq = await ledger.pending_page("s", 4, 10)
        assert ([stored.seq for stored in events], last_seq) == ([5], 5)


async def test_a_page_leaves_out_what_is_finished_or_dead(journal: Journal) -> None:
    await journal.append([event(f"e{n}") for n in range(4)])
    journal.processed(acked(1, 1))
    journal.dead_letter(3, 10, None, "poison")
    await journal.execute(lambda _connection: None)
    events, last_seq = await journal.pending_page("s", 0, 10)
    assert [(stored.seq, stored.source_event_id, stored.envelope) for stored in events] == [
        (2, "e1", b'{"id":"e1"}'),
        (4, "e3", b'{"id":"e3"}'),
    ]
    assert last_seq == 4


async def test_an_event_whose_bytes_changed_on_disk_becomes_a_dead_letter_and_is_not_delivered(
    journal: Journal, tmp_path: Path
) -> None:
    await journal.append([event("a"), event("b")])
    await journal.execute(lambda c: c.execute("UPDATE ledger SET envelope = x'7b7d' WHERE seq = 1").fetchall())
    events, last_seq = await journal.pending_page("s", 0, 10)
    assert ([stored.seq for stored in events], last_seq) == ([2], 2)
    await journal.close()
    ((state, reason),) = rows(tmp_path, "SELECT process_state, process_error FROM ledger WHERE seq = 1")
    assert state == "dead_letter"
    assert reason.startswith("corrupt")


async def test_a_restart_finds_what_is_unfinished(open_journal: OpenJournal) -> None:
    first = await open_journal()
    await first.append([event("a", at=5), event("b", at=7), event("c", stream="z", at=9)])
    first.processed(acked(1, 1))
    first.dead_letter(3, 1, None, "poison")
    await first.close()
    second = await open_journal()
    assert second.backlog == (1, 1, 7, 3)
    assert await second.readers.run(reader.pending_streams) == [("s", 1, 2)]


async def test_a_restart_knows_how_far_each_source_had_got(open_journal: OpenJournal) -> None:
    first = await open_journal()
    assert first.checkpoints == {}
    await first.execute(
        lambda c: c.execute("INSERT INTO source_checkpoints VALUES ('feed', 'cursor-7', 3, 1000)").fetchall()
    )
    await first.close()
    assert (await open_journal()).checkpoints == {"feed": "cursor-7"}


async def test_business_order_is_sequence_then_emitted_time_then_arrival(journal: Journal) -> None:
    facts: list[tuple[int | None, str | None]] = [
        (None, None), (None, "2026-01-02"), (9, None), (None, "2026-01-01"), (7, "2026-01-09"), (None, None),
        (7, "2026-01-08"),
    ]  # fmt: skip
    await journal.append(
        [event(f"e{n}", source_sequence=seq, source_emitted_at=at) for n, (seq, at) in enumerate(facts, start=1)]
    )
    found = await journal.readers.run(reader.in_business_order, "stream:s", 100)
    assert [stored.seq for stored in found] == [7, 5, 3, 4, 2, 1, 6]


async def test_a_receipt_tells_what_became_of_an_identity(journal: Journal) -> None:
    await journal.append([event("a"), event("a", envelope=b"{}", at=3_000_000)])
    receipt = await journal.readers.run(reader.receipt, "stream:s", "a")
    assert receipt is not None
    expected = {"seq": 1, "stream": "s", "process_state": "pending", "duplicate_count": 1, "payload_conflict_count": 1,
                "received_at": 1_000_000, "ingest_last_seen_at": 3_000_000, "emptied": 0}  # fmt: skip
    assert expected.items() <= receipt.items()
    assert await journal.readers.run(reader.receipt, "stream:s", "unknown") is None


async def test_a_reader_cannot_write(journal: Journal) -> None:
    with pytest.raises(apsw.ReadOnlyError):
        await journal.readers.run(lambda c: c.execute("DELETE FROM ledger"))


async def test_a_slow_query_holds_up_no_commit_and_no_other_query(journal: Journal) -> None:
    go, entered = threading.Event(), threading.Event()

    def slow(connection: apsw.Connection) -> int:
        entered.set()
        go.wait()
        count: int = connection.execute("SELECT count(*) FROM ledger").get
        return count

    task = asyncio.ensure_future(journal.readers.run(slow))
    await until(entered.is_set)
    assert (await journal.append([event("a")])).seqs == [1]
    assert (await journal.readers.run(reader.backlog)).pending == 1
    go.set()
    assert await task == 1

"""Dead letters: listed, inspected, replayed once, discarded."""

import asyncio
from pathlib import Path

import apsw
import pytest

from broker.clock import ManualClock
from broker.errors import InvalidRequest, NotFound
from broker.journal import dead_letters
from broker.journal.dead_letters import DeadLetters, Filter, Progress
from broker.journal.journal import Journal
from tests.journal.conftest import event, rows


@pytest.fixture
async def letters(journal: Journal, clock: ManualClock) -> DeadLetters:
    """Six events: 1–3 dead on `x`, 4–5 dead on `y`, 6 waiting."""
    streams = ["x", "x", "x", "y", "y", "y"]
    await journal.append([event(f"e{n}", stream=stream) for n, stream in enumerate(streams, start=1)])
    for seq in range(1, 6):
        clock.advance(1000)
        journal.dead_letter(seq, 10, seq * 100, "poison" if seq % 2 else "its lease ran out")
    await journal.execute(lambda _connection: None)
    return DeadLetters(journal, clock)


async def test_a_dead_letter_keeps_reason_attempts_times_and_origin(letters: DeadLetters, clock: ManualClock) -> None:
    letter, envelope, is_whole = await letters.inspect(2)
    assert (envelope, is_whole) == (b'{"id":"e2"}', True)
    assert (letter.stream, letter.source_event_id, letter.reason) == ("x", "e2", "its lease ran out")
    assert (letter.attempts, letter.received_at, letter.first_attempt_at) == (10, 1_000_000, 200)
    assert letter.dead_at == clock.wall_us() - 3_000_000


@pytest.mark.parametrize(
    ("wanted", "seqs"),
    [
        (Filter(), [1, 2, 3, 4, 5]),
        (Filter(stream="x"), [1, 2, 3]),
        (Filter(stream="*"), [1, 2, 3, 4, 5]),
        (Filter(reason="poison"), [1, 3, 5]),
        (Filter(stream="y", reason="lease"), [4]),
        (Filter(type="other"), []),
    ],
)
async def test_a_filter_selects_by_all_of_its_parts(letters: DeadLetters, wanted: Filter, seqs: list[int]) -> None:
    assert [letter.seq for letter in await letters.page(wanted)] == seqs
    assert await letters.count(wanted) == len(seqs)


async def test_a_filter_selects_by_the_time_of_death(letters: DeadLetters, clock: ManualClock) -> None:
    now = clock.wall_us()
    assert [d.seq for d in await letters.page(Filter(dead_after=now - 2_000_000))] == [4, 5]
    assert [d.seq for d in await letters.page(Filter(dead_before=now - 2_000_000))] == [1, 2]


async def test_pages_go_on_behind_a_sequence(letters: DeadLetters) -> None:
    assert [d.seq for d in await letters.page(Filter(), after_seq=2, limit=2)] == [3, 4]


async def test_a_replay_goes_to_the_tail_of_its_stream_with_fresh_attempts(
    letters: DeadLetters, journal: Journal, tmp_path: Path
) -> None:
    arrived = []
    journal.on_events = arrived.extend
    assert await letters.replay_one(2) == 7
    ((seq, redriven),) = arrived
    assert (seq, redriven.stream, redriven.source_event_id, redriven.envelope) == (7, "x", "e2", b'{"id":"e2"}')
    assert rows(tmp_path, "SELECT process_state, process_attempts, process_error FROM ledger WHERE seq = 7") == [
        ("pending", 0, None)
    ]


async def test_a_replayed_letter_keeps_its_reason_and_says_what_it_was_redriven_as(
    letters: DeadLetters, tmp_path: Path
) -> None:
    await letters.replay_one(2)
    assert rows(tmp_path, "SELECT process_state, process_error, redriven_as FROM ledger WHERE seq = 2") == [
        ("processed", "its lease ran out", 7)
    ]
    with pytest.raises(NotFound, match="no dead letter with sequence 2"):
        await letters.replay_one(2)


async def test_two_replays_of_one_letter_at_once_deliver_it_once(letters: DeadLetters, journal: Journal) -> None:
    arrived = []
    journal.on_events = arrived.extend
    results = await asyncio.gather(*(letters.replay_one(2) for _ in range(5)), return_exceptions=True)
    assert len(arrived) == 1
    assert {result for result in results if isinstance(result, int)} == {7}


async def test_a_duplicate_of_a_replayed_event_is_still_a_duplicate(letters: DeadLetters, journal: Journal) -> None:
    await letters.replay_one(2)
    assert (await journal.append([event("e2", stream="x")])).seqs == [-2]


async def test_a_replayed_letter_can_die_and_be_replayed_again(letters: DeadLetters, journal: Journal) -> None:
    assert await letters.replay_one(2) == 7
    journal.dead_letter(7, 10, None, "again")
    await journal.execute(lambda _connection: None)
    assert await letters.replay_one(7) == 8


async def test_a_replayed_letter_keeps_what_was_noted_beside_it(journal: Journal, clock: ManualClock) -> None:
    await journal.append([event("e1", notes='{"server_login":"stadium-1"}', partition_key="k"), event("e2")])
    for seq in (1, 2):
        journal.dead_letter(seq, 10, None, "poison")
    await journal.execute(lambda _connection: None)
    assert [await DeadLetters(journal, clock).replay_one(seq) for seq in (1, 2)] == [3, 4]
    found = await journal.execute(
        lambda c: c.execute("SELECT notes, partition_key FROM ledger WHERE seq > 2").fetchall()
    )
    assert found == [('{"server_login":"stadium-1"}', "k"), (None, None)]


async def test_a_replay_by_filter_reports_progress_and_takes_all_that_match(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "SLICE", 2)
    progress = [p async for p in letters.replay(Filter(stream="x"))]
    assert progress == [Progress(2, 3), Progress(3, 3)]
    assert [d.seq for d in await letters.page(Filter())] == [4, 5]


async def test_a_rate_limits_how_many_are_replayed_at_once(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    progress = [p async for p in letters.replay(Filter(), per_second=2.0)]
    monkeypatch.undo()
    assert [p.done for p in progress] == [2, 4, 5]
    assert pauses == [1.0, 1.0, 0.5]


async def test_a_discarded_letter_is_settled_and_says_why(letters: DeadLetters, tmp_path: Path) -> None:
    await letters.discard_one(1, "known bug")
    assert [p async for p in letters.discard(Filter(stream="y"), "not needed")] == [Progress(2, 2)]
    assert rows(tmp_path, "SELECT seq, process_error FROM ledger WHERE state = 1") == [
        (1, "discarded: known bug; was: poison"),
        (4, "discarded: not needed; was: its lease ran out"),
        (5, "discarded: not needed; was: poison"),
    ]
    with pytest.raises(NotFound):
        await letters.discard_one(1, "again")


async def test_a_letter_whose_bytes_are_damaged_cannot_be_replayed(letters: DeadLetters, journal: Journal) -> None:
    def damage(connection: apsw.Connection) -> None:
        connection.execute("UPDATE ledger SET envelope = x'7b7d' WHERE seq = 1")

    await journal.execute(damage)
    with pytest.raises(InvalidRequest, match="no longer match"):
        await letters.replay_one(1)
    assert await letters.count(Filter()) == 5

"""kill -9 while events are put off, cancelled and fired: each fires exactly once into the journal, and is handled."""

import asyncio
import json
import random
import sys
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.adversity.conftest import SEED, TORTURE
from tests.support.writer import PATIENCE_SECONDS

KILLS = 500 if TORTURE else 10
PUT_OFF_A_LIFE = 200
LINES_A_LIFE_MAX = 500

Seen = dict[str, Counter[int]]
"""How often each number was said after a word."""


async def live(directory: Path, start: int, count: int, lines_max: int | None, seen: Seen, *dies: str) -> int:
    """Run the program until it has said so many lines, then kill it; else to its own end. Its exit code."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.scheduler.child", str(directory), str(start), str(count), *dies,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert child.stdout is not None
    lines = 0
    try:
        async with asyncio.timeout(PATIENCE_SECONDS * 3):
            while line := await child.stdout.readline():
                word, *number = line.decode().split()
                if number:
                    seen[word][int(number[0])] += 1
                lines += 1
                if lines == lines_max:
                    child.kill()
    finally:
        if child.returncode is None and (lines_max is not None or sys.exc_info()[0] is not None):
            child.kill()
        code = await child.wait()
        child._transport.close()  # type: ignore[attr-defined]
    return code


def check(directory: Path, seen: Seen, why: str) -> list[tuple[str, int]]:
    """What was put off is in the journal once, what was cancelled is not, and every handler has had the former."""
    with closing(apsw.Connection(str(directory / "courier.db"))) as connection:
        journal = Counter(
            json.loads(payload)["n"] for (payload,) in connection.execute("SELECT payload FROM event_journal")
        )
        deferred = [
            (json.loads(payload)["n"], status)
            for payload, status in connection.execute("SELECT payload, status FROM deferred_events")
        ]
        unpaired = connection.execute(
            "SELECT count(*) FROM deferrals LEFT JOIN ledger USING (seq) "
            "WHERE (status = 'fired') <> (ledger.seq IS NOT NULL)"
        ).get
        done = connection.execute("SELECT count(*) FROM event_journal WHERE status = 'done'").get
    assert unpaired == 0, why
    assert done == len(journal), why
    assert set(journal.values()) <= {1}, f"{why}: an event is in the journal twice"
    assert {n for n, status in deferred if status == "fired"} == journal.keys(), why
    assert not [n for n, status in deferred if status == "scheduled"], why
    assert seen["scheduled"].keys() <= {n for n, _ in deferred}, f"{why}: what was put off is lost"
    assert not seen["cancelled"].keys() & journal.keys(), f"{why}: what was cancelled has fired"
    assert seen["scheduled"].keys() - {n for n, status in deferred if status == "cancelled"} <= journal.keys(), why
    for handler in ("first", "last"):
        assert seen[handler].keys() == journal.keys(), f"{why}: {handler} was passed over"
    return connection_counts(deferred)


def connection_counts(deferred: list[tuple[int, str]]) -> list[tuple[str, int]]:
    """How often each status is there."""
    return sorted(Counter(status for _, status in deferred).items())


async def test_a_kill_at_any_moment_loses_nothing_that_was_put_off_and_fires_nothing_twice(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    seen: Seen = defaultdict(Counter)
    for life in range(KILLS):
        lines = rng.randint(1, LINES_A_LIFE_MAX)
        code = await live(tmp_path / "data", life * PUT_OFF_A_LIFE, PUT_OFF_A_LIFE, lines, seen)
        assert code in (-9, 0)
    assert await live(tmp_path / "data", KILLS * PUT_OFF_A_LIFE, 1, None, seen) == 0
    counts = dict(check(tmp_path / "data", seen, f"seed {SEED}"))
    assert counts["fired"] > KILLS * 10
    assert counts["cancelled"], "nothing was cancelled in time"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", [1, 2, 7])
async def test_a_kill_right_at_the_commit_of_what_is_due_neither_loses_nor_repeats_it(
    tmp_path: Path, when: str, commit: int
) -> None:
    seen: Seen = defaultdict(Counter)
    assert await live(tmp_path / "data", 0, PUT_OFF_A_LIFE, None, seen, when, str(commit)) == -9
    assert await live(tmp_path / "data", PUT_OFF_A_LIFE, 40, None, seen) == 0
    check(tmp_path / "data", seen, f"{when} commit {commit}")

"""kill -9 while events are published, handled and marked: nothing is lost, and no handler is passed over."""

import asyncio
import json
import random
import sys
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path

import apsw

from tests.adversity.conftest import SEED, TORTURE
from tests.bus.child import FAILS_EVERY
from tests.support.writer import PATIENCE_SECONDS

KILLS = 500 if TORTURE else 12
PUBLISHED_A_LIFE = 400
LINES_A_LIFE_MAX = 600

Seen = dict[str, Counter[int]]
"""How often each number was said after a word."""


async def live(directory: Path, start: int, count: int, lines_max: int | None, seen: Seen) -> None:
    """Run the program until it has said so many lines, then kill it; without a number, to its own end."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bus.child", str(directory), str(start), str(count),
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
        if child.returncode is None and lines_max is not None:
            child.kill()
        code = await child.wait()
        child._transport.close()  # type: ignore[attr-defined]
    assert code == (0 if lines_max is None else -9)


async def test_a_kill_at_any_moment_loses_no_event_and_skips_no_handler(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    seen: Seen = defaultdict(Counter)
    interrupted = 0
    for life in range(KILLS):
        lines_max = rng.randint(1, LINES_A_LIFE_MAX)
        await live(tmp_path / "data", life * PUBLISHED_A_LIFE, PUBLISHED_A_LIFE, lines_max, seen)
        interrupted += len(seen["published"].keys() - seen["last"].keys())
    await live(tmp_path / "data", KILLS * PUBLISHED_A_LIFE, 1, None, seen)
    with closing(apsw.Connection(str(tmp_path / "data" / "courier.db"))) as connection:
        rows = connection.execute("SELECT payload, status, error FROM event_journal").fetchall()
    outcomes = {json.loads(payload)["n"]: (status, error) for payload, status, error in rows}
    assert len(outcomes) == len(rows), f"seed {SEED}: an event is there twice"
    assert seen["published"].keys() <= outcomes.keys(), f"seed {SEED}: a published event is lost"
    for handler in ("first", "fragile", "last"):
        assert outcomes.keys() == seen[handler].keys(), f"seed {SEED}: {handler} was passed over"
    for n, outcome in outcomes.items():
        assert outcome == (("failed", "fragile: ValueError: seven") if n % FAILS_EVERY == 0 else ("done", None)), n
    again = sum(count > 1 for count in seen["first"].values())
    print(f"{KILLS} kills: {len(outcomes)} events, {interrupted} published and not handled, {again} handled again")
    assert again  # else the kills hit nothing

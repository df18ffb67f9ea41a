"""Backups of a journal in use, and verification that finds what is broken."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from broker.errors import ConfigError, NotFound
from broker.journal.backup import back_up, verify
from broker.journal.journal import Journal
from tests.journal.conftest import event


async def test_a_backup_of_a_journal_in_use_is_whole_and_of_one_moment(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event(f"e{n}") for n in range(2_000)])
    stop = asyncio.Event()

    async def go_on() -> int:
        count = 2_000
        while not stop.is_set():
            await journal.append([event(f"e{count + n}") for n in range(10)])
            count += 10
        return count

    producer = asyncio.ensure_future(go_on())
    copy = tmp_path / "copy.db"
    await asyncio.get_running_loop().run_in_executor(None, back_up, journal.path, copy)
    stop.set()
    total = await producer
    verdict = verify(copy)
    assert verdict.problems == []
    assert verdict.events % 10 == 0
    assert 2_000 <= verdict.events <= total


async def test_a_backup_reports_its_progress_to_the_end(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event("a")])
    reports: list[tuple[int, int]] = []
    back_up(journal.path, tmp_path / "copy.db", lambda done, total: reports.append((done, total)))
    assert reports[-1][0] == reports[-1][1] > 0


async def test_a_backup_does_not_overwrite_a_file(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        back_up(journal.path, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_a_backup_of_nothing_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no journal here"):
        back_up(tmp_path / "courier.db", tmp_path / "copy.db")


async def test_verification_counts_what_it_checked(journal: Journal) -> None:
    await journal.append([event(f"e{n}") for n in range(5)])
    assert verify(journal.path) == (5, 0, 5, [])


def _damaged(path: Path, sql: str) -> Path:
    writing = apsw.Connection(str(path))
    writing.execute(sql)
    writing.close()
    return path


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("UPDATE ledger SET envelope = x'7b7d' WHERE seq = 3", "hash: event 3 no longer matches its hash"),
        ("DELETE FROM ledger WHERE seq IN (2, 3)", "sequence: 2 to 3 missing"),
        ("PRAGMA foreign_keys=OFF; UPDATE ledger SET redriven_as = 99 WHERE seq = 1", "reference: ('ledger', 1"),
    ],
)
async def test_verification_finds_damage(journal: Journal, tmp_path: Path, sql: str, problem: str) -> None:
    await journal.append([event(f"e{n}") for n in range(5)])
    back_up(journal.path, tmp_path / "copy.db")
    (found,) = verify(_damaged(tmp_path / "copy.db", sql)).problems
    assert found.startswith(problem)


async def test_verification_finds_a_broken_structure(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event(f"e{n}", envelope=b"x" * 900) for n in range(200)])
    copy = tmp_path / "copy.db"
    back_up(journal.path, copy)
    broken = bytearray(copy.read_bytes())
    for page in range(10, 40):
        broken[page * 4096 : page * 4096 + 100] = bytes(100)
    copy.write_bytes(broken)
    assert any(problem.startswith("structure:") for problem in verify(copy).problems)


@pytest.mark.parametrize(("content", "message"), [(b"", "not a journal"), (b"no database" * 100, "not an SQLite")])
def test_verification_refuses_what_is_not_a_journal(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        verify(tmp_path / "other")


async def test_the_commands_back_up_and_verify_and_say_so(journal: Journal, tmp_path: Path) -> None:
    await journal.append([event(f"e{n}") for n in range(3)])
    copy = tmp_path / "copy.db"

    def courier(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "broker", *arguments], capture_output=True, text=True, check=False)

    made = courier("backup", str(copy), "--data", str(tmp_path))
    assert (made.returncode, json.loads(made.stdout)) == (0, {"file": str(copy), "bytes": copy.stat().st_size})
    good = courier("verify", str(copy))
    assert good.returncode == 0
    assert json.loads(good.stdout).items() >= {"file": str(copy), "whole": True, "events": 3}.items()
    again = courier("backup", str(copy), "--data", str(tmp_path))
    assert (again.returncode, again.stdout) == (65, "")
    assert "exists already" in again.stderr
    bad = courier("verify", str(_damaged(copy, "UPDATE ledger SET envelope = x'00'")))
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "event 1 no longer matches its hash" in bad.stderr

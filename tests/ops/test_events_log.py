"""The log of events: whole lines, bounded files, and a loop that never waits for the disk."""

import asyncio
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.clock import ManualClock
from broker.config import Events
from broker.errors import ConfigError
from broker.limits import EVENT_LOG_LINES_MAX
from broker.ops import events_log, line_file
from broker.ops.events_log import EventLog
from broker.ops.line_file import LineFile
from tests.journal.conftest import event, until


def lines_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def log_to(path: Path, clock: ManualClock | None = None, **settings: int) -> EventLog:
    return EventLog(path, Events(log=str(path), **settings), clock or ManualClock())


async def hand_over() -> None:
    """Let the loop come to the end of what woke it up."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


async def test_a_line_says_what_happened_to_which_event_and_how_long_it_took(path: Path) -> None:
    clock = ManualClock(wall_us=1_771_525_800_000_000)
    log = log_to(path, clock)
    received = event("e-1", stream="s", at=clock.wall_us())
    clock.advance(250)
    log.enqueued([(7, received)])
    log.trigger_ran("notify-jen", 7, received, 0.0015)
    log.trigger_failed("notify-jen", 7, received, 0.002, "no such stream")
    await log.close()
    common = {"ts": "2026-02-19T18:30:00.250Z", "stream": "s", "id": "e-1", "seq": 7, "ms": 250.0}
    assert lines_of(path) == [
        {"event": "enqueue", **common},
        {"event": "trigger.run", **common, "trigger": "notify-jen", "runMs": 1.5},
        {"event": "trigger.fail", **common, "trigger": "notify-jen", "runMs": 2.0, "error": "no such stream"},
    ]


async def test_nothing_runs_before_the_first_line_and_nothing_after_the_close(path: Path) -> None:
    def runs() -> bool:
        return "courier-events-log" in {thread.name for thread in threading.enumerate()}

    log = log_to(path)
    assert not runs()
    await log.close()
    log.enqueued([(1, event("e"))])
    await hand_over()
    assert runs()
    await log.close()
    assert not runs()


async def test_all_that_one_wake_up_brings_is_handed_over_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_to(path)
    puts: list[int] = []
    put = log._work.put

    class Work:
        def put(self, records: Any) -> None:
            puts.append(0 if records is None else len(records))
            put(records)

        get = log._work.get

    log._work = Work()  # type: ignore[assignment]
    for number in range(50):
        log.enqueued([(number, event(f"e-{number}")), (number + 100, event(f"f-{number}"))])
    await hand_over()
    assert puts == [100]
    await log.close()
    assert len(lines_of(path)) == 100


def rotated(path: Path) -> list[str]:
    return sorted(each.name.removeprefix(path.name) for each in path.parent.iterdir())


@pytest.mark.parametrize(("keep", "files"), [(0, 1), (1, 2), (3, 4), (4, 5), (5, 5)])
def test_a_file_that_would_become_too_large_is_renamed_and_the_oldest_goes(path: Path, keep: int, files: int) -> None:
    file = LineFile(path, bytes_max=15, keep=keep)
    for number in range(5):
        file.append(b"line number %d\n" % number)
    file.reopen()
    assert rotated(path) == ["", *[f".{number}" for number in range(1, files)]]
    newest_first = [path, *[path.with_name(f"{path.name}.{number}") for number in range(1, files)]]
    assert [each.read_text()[-2] for each in newest_first] == list("43210")[:files]


@pytest.mark.parametrize(("bytes_max", "files"), [(21, 2), (22, 1), (23, 1)])
def test_a_file_is_full_when_the_next_lines_would_pass_the_bound(path: Path, bytes_max: int, files: int) -> None:
    file = LineFile(path, bytes_max, keep=5)
    file.append(b"0123456789\n")
    file.append(b"0123456789\n")
    file.reopen()
    assert len(rotated(path)) == files


def test_a_renamed_file_is_left_alone_after_a_reopen(path: Path) -> None:
    file = LineFile(path, 1_000, keep=5)
    file.append(b"one\n")
    path.rename(path.with_name("moved"))
    file.append(b"two\n")
    file.reopen()
    file.append(b"three\n")
    file.reopen()
    assert path.with_name("moved").read_bytes() == b"one\ntwo\n"
    assert path.read_bytes() == b"three\n"


def test_what_a_full_disk_cut_off_is_taken_away_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LineFile(path, 1_000, keep=5)
    file.append(b"whole\n")
    write, room = os.write, [3]

    def narrow(descriptor: int, data: Any) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "no room")
        return write(descriptor, data[: room.pop()])

    monkeypatch.setattr(line_file.os, "write", narrow)
    with pytest.raises(OSError, match="no room"):
        file.append(b"torn\n")
    monkeypatch.undo()
    file.append(b"next\n")
    file.reopen()
    assert path.read_bytes() == b"whole\nnext\n"


async def test_a_file_that_cannot_be_opened_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"events\.log: .*/nowhere/e\.jsonl cannot be written: No such file"):
        log_to(tmp_path / "nowhere" / "e.jsonl")


async def test_on_a_slow_disk_lines_past_the_bound_are_dropped_and_counted_and_the_loop_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_log, "EVENT_LOG_LINES_MAX", 100)
    write, quick = os.write, threading.Event()

    def slow(descriptor: int, data: Any) -> int:
        assert threading.current_thread().name == "courier-events-log"
        quick.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr(line_file.os, "write", slow)
    log = log_to(path)
    for number in range(250):
        log.enqueued([(number, event(f"e-{number}"))])
        await hand_over()  # would never return, if it waited for the disk
    assert (log.waiting, log.dropped_waiting, log.written) == (100, 150, 0)
    quick.set()
    await until(lambda: log.waiting == 0)
    log.enqueued([(1_000, event("after"))])
    await log.close()
    lines = lines_of(path)
    assert [line["id"] for line in lines if line["event"] == "enqueue"] == [*(f"e-{n}" for n in range(100)), "after"]
    assert sum(line["lines"] for line in lines if line["event"] == "dropped") == 150
    assert (log.written, log.dropped_waiting) == (101, 150)


@pytest.mark.parametrize(("lines", "dropped"), [(99, 0), (100, 0), (101, 1)])
async def test_so_many_lines_may_wait(path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, dropped: int) -> None:
    monkeypatch.setattr(events_log, "EVENT_LOG_LINES_MAX", 100)
    log = log_to(path)
    log.enqueued([(number, event(f"e-{number}")) for number in range(lines)])
    assert log.dropped_waiting == dropped
    await log.close()
    assert EVENT_LOG_LINES_MAX > 100


async def test_a_file_that_cannot_be_written_costs_its_lines_and_the_next_that_can_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events_log, "TRY_AGAIN_SECONDS", 0.001)
    write, is_full = os.write, [True]

    def full(descriptor: int, data: Any) -> int:
        if is_full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(line_file.os, "write", full)
    log = log_to(path)
    for number in range(3):
        log.enqueued([(number, event(f"e-{number}"))])
        await hand_over()
    await until(lambda: log.dropped_failing == 3)
    is_full[0] = False
    await until(lambda: path.stat().st_size > 0)
    await log.close()
    (line,) = lines_of(path)
    assert (line["event"], line["lines"]) == ("dropped", 3), "without another event to go with it"
    said = [record.getMessage() for record in caplog.records]
    assert sum("lines are dropped" in text for text in said) == 1, "once, however often it fails"


async def test_a_close_does_not_wait_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events_log, "CLOSE_SECONDS", 0.01)
    write, quick = os.write, threading.Event()

    def slow(descriptor: int, data: Any) -> int:
        quick.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr(line_file.os, "write", slow)
    log = log_to(path)
    log.enqueued([(1, event("e"))])
    await log.close()
    assert "1 lines are lost" in caplog.text
    quick.set()
    assert log._thread is not None
    await asyncio.to_thread(log._thread.join)

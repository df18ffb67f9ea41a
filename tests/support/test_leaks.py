"""The check that nothing is left over: it bites."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.support import leaks


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "PATIENCE_SECONDS", 0.05)


def test_nothing_is_left_over_by_a_test_that_cleans_up(tmp_path: Path) -> None:
    before = leaks.Held()
    (tmp_path / "file").write_text("x")
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert before.left_over() == []


def test_a_descriptor_is_named_with_what_it_is(tmp_path: Path) -> None:
    before = leaks.Held()
    descriptor = os.open(tmp_path / "leaked", os.O_CREAT)
    try:
        assert before.left_over() == [f"descriptor {descriptor}: {tmp_path / 'leaked'}"]
    finally:
        os.close(descriptor)
    assert before.left_over() == []


def test_another_file_under_the_same_number_is_noticed(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "first", os.O_CREAT)
    before = leaks.Held()
    os.close(descriptor)
    assert os.open(tmp_path / "second", os.O_CREAT) == descriptor
    try:
        assert before.left_over() == [f"descriptor {descriptor}: {tmp_path / 'second'}"]
    finally:
        os.close(descriptor)


def test_a_thread_that_does_not_end_is_named() -> None:
    before, end = leaks.Held(), threading.Event()
    thread = threading.Thread(target=end.wait, name="straggler")
    thread.start()
    try:
        assert before.left_over() == ["thread 'straggler', daemon=False"]
    finally:
        end.set()
        thread.join()


def test_a_thread_that_is_about_to_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "PATIENCE_SECONDS", 20)
    before, end = leaks.Held(), threading.Event()
    threading.Thread(target=end.wait).start()
    end.set()
    assert before.left_over() == []


async def test_a_task_that_does_not_end_is_named() -> None:
    straggler = asyncio.create_task(asyncio.Event().wait(), name="straggler")
    (left_over,) = await leaks.tasks_left_over()
    assert "straggler" in left_over
    straggler.cancel()
    assert await leaks.tasks_left_over() == []


async def test_a_test_runs_on_the_loop_of_the_broker() -> None:
    assert type(asyncio.get_running_loop()).__module__ == "uvloop"

"""The three flows of 004, as the examples have them; and a kill -9 in the middle of one."""

import ast
import random
import shutil
import signal
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.adversity.conftest import SEED, TORTURE
from tests.docs.markdown import ROOT
from tests.extensions.conftest import IT, write
from tests.support.extensions import ExtensionsProcess
from tests.support.process import until

EXAMPLES = ROOT / "docs/examples"
KILLS = 200 if TORTURE else 5


def example(name: str, tmp_path: Path, **seconds: float) -> Path:
    """A copy of an example that waits for as long as a test does."""
    copy = tmp_path / name
    shutil.copytree(EXAMPLES / name, copy)
    for extension, wait in seconds.items():
        manifest = copy / extension / "manifest.yaml"
        head, _, tail = manifest.read_text().partition("seconds: ")
        manifest.write_text(f"{head}seconds: {wait}\n{tail.partition(chr(10))[2]}")
    return copy


def told(process: ExtensionsProcess, count: int) -> list[str]:
    return [process.hear()["text"] for _ in range(count)]


def rows(data: Path, columns: str, table: str = "event_journal") -> list[tuple[object, ...]]:
    with closing(apsw.Connection(str(data / "courier.db"))) as connection:
        return list(connection.execute(f"SELECT {columns} FROM {table} ORDER BY id").fetchall())


def test_an_immediate_publish_is_answered_by_the_agent(tmp_path: Path) -> None:
    with ExtensionsProcess(EXAMPLES / "task", tmp_path / "data", "-n", "1") as running:
        running.say("write the report")
        assert told(running, 1) == ["I take on: write the report"]
        assert running.wait() == 0
    assert rows(tmp_path / "data", "topic, source, status, correlation_id") == [
        ("user.message", "cli_channel", "done", None),
        ("task.received", "task_inbox", "done", "message-1"),
    ]


def test_a_deferred_publish_is_answered_when_it_is_due(tmp_path: Path) -> None:
    with ExtensionsProcess(example("reminder", tmp_path, reminder=0.05), tmp_path / "data", "-n", "1") as running:
        running.say("drink water")
        assert told(running, 1) == ["Reminder: drink water"]
        assert running.wait() == 0
    assert rows(tmp_path / "data", "topic, source, status") == [
        ("user.message", "cli_channel", "done"),
        ("reminder.due", "reminder", "done"),
    ]
    assert rows(tmp_path / "data", "topic, source, status", "deferred_events") == [
        ("reminder.due", "reminder", "fired")
    ]


def test_a_chain_of_deferred_events_goes_on_to_its_last_step(tmp_path: Path) -> None:
    directory = example("checkin", tmp_path, checkin_processor=0.05)
    with ExtensionsProcess(directory, tmp_path / "data", "-n", "3") as running:
        running.say("begin")
        assert [text[:16] for text in told(running, 3)] == [f"Check-in {step} of 3:" for step in (1, 2, 3)]
        assert running.wait() == 0
    assert rows(tmp_path / "data", "topic, correlation_id, status") == [
        ("user.message", None, "done"),
        *[("checkin.started", "checkin-1", "done")] * 3,
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.parent.name)
def test_an_example_imports_nothing_of_courier(path: Path) -> None:
    names = [
        name
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    ]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_kill_in_the_middle_of_a_check_in_does_not_end_it(tmp_path: Path) -> None:
    directory = example("checkin", tmp_path, checkin_processor=0.3)
    with ExtensionsProcess(directory, tmp_path / "data") as running:
        running.say("begin")
        told(running, 1)
        running.kill()
    with ExtensionsProcess(directory, tmp_path / "data") as running:
        steps = set()
        while "Check-in 3 of 3" not in steps:
            steps.add(running.hear()["text"].partition(":")[0])
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
    assert {"Check-in 2 of 3", "Check-in 3 of 3"} <= steps


CHAIN = """
import os


class It:
    async def initialize(self, context):
        self.context = context
        context.subscribe_event("user.message", self.begin)
        context.subscribe_event("step", self.first)
        context.subscribe_event("step", self.second)

    def say(self, *words):
        with open(self.context.config["log"], "ab") as log:
            log.write(b" ".join(str(word).encode() for word in words) + b"\\n")

    async def begin(self, event):
        await self.context.emit("step", {"chain": event.payload["text"], "step": 1})

    async def first(self, event):
        chain, step = event.payload["chain"], event.payload["step"]
        self.say("first", chain, step)
        if step < 5:
            await self.context.schedule_at(0.01, "step", {"chain": chain, "step": step + 1})

    async def second(self, event):
        self.say("second", event.payload["chain"], event.payload["step"])
        if event.payload["step"] == 5:
            await self.context.notify_user(event.payload["chain"])
"""


def test_kills_at_any_moment_lose_no_step_of_any_chain_and_skip_no_handler(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    log = tmp_path / "log"
    write(tmp_path / "extensions", "chain", f"{IT}config: {{log: {log}}}\n", CHAIN)
    log.touch()
    chains = 0
    for _ in range(KILLS):
        lines = log.read_bytes().count(b"\n") + rng.randint(0, 30)
        with ExtensionsProcess(tmp_path / "extensions", tmp_path / "data") as running:
            for _ in range(5):
                running.say(f"chain-{chains}")
                chains += 1
            until(lambda running=running, lines=lines: log.read_bytes().count(b"\n") >= lines)  # type: ignore[misc]
            running.kill()
    begun = {payload for topic, payload in rows(tmp_path / "data", "topic, payload") if topic == "user.message"}
    begun_chains = {f"chain-{n}" for n in range(chains) if any(f'"chain-{n}"' in str(each) for each in begun)}
    ended: set[str] = set()
    with ExtensionsProcess(tmp_path / "extensions", tmp_path / "data") as running:
        running.say("the last")
        while "the last" not in ended or not begun_chains <= ended | told_before(log):
            ended.add(running.hear()["text"])
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
    said = Counter(line.rpartition(" ")[0] + line.rpartition(" ")[2] for line in log.read_text().splitlines())
    for chain in begun_chains:
        for handler in ("first", "second"):
            for step in range(1, 6):
                assert said[f"{handler} {chain}{step}"] >= 1, f"seed {SEED}: {handler} of {chain} skipped step {step}"
    assert "failed" not in {status for (status,) in rows(tmp_path / "data", "status")}, f"seed {SEED}"


def told_before(log: Path) -> set[str]:
    """The chains whose last handler has run at some time."""
    lines = [line.split(" ") for line in log.read_text().splitlines()]
    return {" ".join(words[1:-1]) for words in lines if words[0] == "second" and words[-1] == "5"}

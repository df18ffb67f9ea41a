"""The pages about the broker inside a program and as a pipe: their programs run, their conversation is held."""

import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import broker as package
from broker.embedded.commands import COMMANDS
from tests.docs.console import steps
from tests.docs.markdown import ROOT, Block, blocks, inline_code
from tests.docs.pages import STDIO
from tests.support.pipe import PipeProcess
from tests.support.process import PATIENCE_SECONDS, courier, environment

EMBED = ROOT / "docs/how-to/embed-in-a-program.md"
KERNEL = ROOT / "docs/how-to/pipe-of-a-stream-kernel.md"
BUS = ROOT / "docs/reference/bus.md"
PYTHON = ROOT / "docs/reference/python.md"
SENT, RECEIVED = "-> ", "<- "


def programs(page: Path) -> list[tuple[Block, str]]:
    """Every program of a page, with the output that the page shows behind it."""
    found = blocks(page, "python", "js", "text")
    return [(program, output.text) for program, output in zip(found[::2], found[1::2], strict=True)]


def run(command: list[str], program: str, directory: Path) -> str:
    script = directory / f"program.{'mjs' if 'node' in command[0] else 'py'}"
    script.write_text(program)
    ended = subprocess.run(
        [*command, str(script)],
        env=environment(),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(("program", "output"), programs(EMBED) + programs(BUS) + programs(KERNEL)[1:])
def test_a_program_of_the_pages_prints_what_the_page_says(program: Block, output: str, tmp_path: Path) -> None:
    assert program.kind == "python"
    assert run([sys.executable], program.text, tmp_path) == output


def test_a_second_run_of_the_first_program_finds_duplicates_as_the_page_says(tmp_path: Path) -> None:
    program, _ = programs(EMBED)[0]
    changed = program.text.replace("async with broker.subscribe", "return\n        async with broker.subscribe")
    assert run([sys.executable], changed, tmp_path).count("new") == 3
    assert run([sys.executable], changed, tmp_path).count("duplicate") == 3


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here; install the Debian package nodejs")
def test_the_kernel_of_the_page_starts_the_manifest_and_prints_what_the_page_says(tmp_path: Path) -> None:
    program, output = programs(KERNEL)[0]
    assert program.kind == "js"
    made = courier("manifest", "--no-http", cwd=tmp_path)
    (tmp_path / "courier.manifest.json").write_bytes(made.stdout)
    assert run([shutil.which("node") or ""], program.text, tmp_path) == output


def test_the_commands_of_the_page_are_answered_as_the_page_says(tmp_path: Path) -> None:
    (commands,) = blocks(KERNEL, "json")
    (step,) = steps(KERNEL)
    assert step.command == "courier pipe --stdio --memory < commands.ndjson"
    ended = courier("pipe", "--stdio", "--memory", stdin=commands.text.encode(), cwd=tmp_path)
    assert (ended.returncode, ended.stdout.decode().splitlines()) == (0, step.output)


def test_the_conversation_of_the_stdio_page_is_one_that_the_pipe_holds(tmp_path: Path) -> None:
    (conversation,) = blocks(STDIO, "text")
    pipe = PipeProcess(tmp_path, "--data", "data")
    try:
        for line in conversation.text.splitlines():
            if line.startswith(SENT):
                pipe.say(line.removeprefix(SENT).encode() + b"\n")
            else:
                assert line.startswith(RECEIVED)
                assert pipe.hear() == json.loads(line.removeprefix(RECEIVED))
        pipe.stdin.close()
        assert pipe.wait() == 0
    finally:
        pipe.close()


def test_the_stdio_page_has_every_command_and_each_of_them_is_one() -> None:
    shown = re.findall(
        r"^\| `(\{.+?\})` \|", STDIO.read_text(encoding="utf-8").partition("## Messages")[0], re.MULTILINE
    )
    assert [next(iter(json.loads(command))) for command in shown] == list(COMMANDS)


def sections() -> dict[str, str]:
    _, *parts = re.split(r"^## `(\w+)`$", PYTHON.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_python_page_has_a_section_for_every_exported_name() -> None:
    assert sorted(sections()) == package.__all__


@pytest.mark.parametrize("name", package.__all__)
def test_the_python_page_names_every_public_member(name: str) -> None:
    kind = getattr(package, name)
    members = {each for each in [*vars(kind), *getattr(kind, "_fields", ())] if not each.startswith("_")}
    internal = {"Reader": {"deliver", "end"}}.get(name, set())
    missing = {each for each in members - internal if not re.search(rf"\b{each}\b", sections()[name])}
    assert missing == set()


def test_the_python_page_has_the_arguments_with_their_defaults() -> None:
    said = set(inline_code(PYTHON))
    signature = inspect.signature(package.Broker.subscribe)
    credit, ack = signature.parameters["credit"].default, signature.parameters["ack"].default
    assert f'broker.subscribe(pattern, *, credit={credit}, ack="{ack}", group=None, from_start=True)' in said
    window = inspect.signature(package.Broker.pipe).parameters["window"].default
    assert f"broker.pipe(subscribe=None, *, window={window})" in said
    assert f"KernelAdapter(broker, *, subscribe=None, window={window}, http_url=None)" in said
    (event,) = [code for code in said if code.startswith("Event(to, payload, ")]
    assert re.findall(r"(\w+)=", event) == list(inspect.signature(package.Event).parameters)[2:]

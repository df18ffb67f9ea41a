"""What the README shows is what happens."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import StartBroker
from tests.docs.console import Console, Forms, Step, assert_page_is_true, steps
from tests.docs.markdown import ROOT, blocks

README = ROOT / "README.md"
PIPE = ROOT / "docs/how-to/pipe-of-a-stream-kernel.md"
"""Needs a file of commands and no broker; tests/docs/test_embedded_pages.py runs it."""
CONTRACTS = [ROOT / "docs/reference" / page for page in ("skyra.md", "pixel.md", "cloudevents.md", "sources.md")]
EFFECTS = ROOT / "docs/how-to/add-effects.md"
"""Needs an effect; tests/docs/test_add_effects.py runs it."""
HOW_TO = sorted(set((ROOT / "docs/how-to").glob("*.md")) - {PIPE, EFFECTS})
PAGES = [README, ROOT / "docs/reference/http.md", *CONTRACTS, *HOW_TO]
ONE_DELIVERY = ROOT / "docs/how-to/replay-dead-letters.md"

REFUSAL = "courier: not_found: there is no dead letter with sequence 7"

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@needs_curl
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_prints_what_the_page_says(page: Path, broker_process: StartBroker) -> None:
    config = {"streams": {"maxDeliveries": 1}} if page == ONE_DELIVERY else {}
    assert_page_is_true(page, broker_process(config=config, env={"COURIER_LOG__FORMAT": "human"}))


def test_the_readme_shows_both_commands_and_an_event_in_and_out() -> None:
    commands = [step.command.split()[:2] for step in steps(README)]
    assert ["make", "serve"] in commands
    assert ["courier", "pub"] in commands
    assert ["courier", "sub"] in commands
    assert ["curl", "-s"] in commands
    assert any("make test" in block.text for block in blocks(README, "sh"))


def test_a_command_may_go_over_several_lines_and_print_several(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```console\n$ one 'a\n> b'\nx\ny\n$ two\n$ three\nz\n```\n\n```sh\n$ no\n```\n")
    assert list(steps(page)) == [Step("one 'a\nb'", ["x", "y"]), Step("two", []), Step("three", ["z"])]


@pytest.mark.parametrize(
    "output",
    [
        f"{REFUSAL}\n",  # the exit code is not 0, and the page does not say so
        f"{REFUSAL} at all\n$ echo $?\n65\n",
        f"{REFUSAL}\n$ echo $?\n0\n",
        f"{REFUSAL}\nand more\n$ echo $?\n65\n",
        "$ echo $?\n65\n",
    ],
)
def test_a_page_that_says_something_else_is_found_out(output: str, tmp_path: Path, broker_process: StartBroker) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n$ courier dead show 7\n{output}```\n")
    with pytest.raises(AssertionError):
        assert_page_is_true(page, broker_process())


def test_a_page_that_says_the_exit_code_of_a_failure_is_true(tmp_path: Path, broker_process: StartBroker) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n$ courier dead show 7\n{REFUSAL}\n")
    page.write_text(page.read_text() + "$ echo $?\n65\n```\n")
    assert_page_is_true(page, broker_process())


def test_the_broker_of_the_page_is_the_broker_under_test(broker_process: StartBroker) -> None:
    broker = broker_process(env={"COURIER_LOG__FORMAT": "human"})
    console = Console(broker)
    start = console.run("make serve")
    assert "courier listens on http://127.0.0.1:8787, journal in data/courier.db" in start
    assert str(broker.port) not in " ".join(start)


def test_times_and_made_up_ids_are_compared_by_their_form_and_nothing_else_is() -> None:
    forms = Forms()
    assert forms.of('"e-18e912e7b09e9d4f0a1b","2026-11-18T07:25:12.793Z"') == '"MADE-UP-1","TIME"'
    assert forms.of("e-18e912e7bcde46150a1b e-18e912e7b09e9d4f0a1b") == "MADE-UP-2 MADE-UP-1"
    assert forms.of(f"courier_{'a' * 43} sha256:{'0' * 64}") == "MADE-UP-3 MADE-UP-4"
    assert forms.of("oldest  1.5 s  12 ms") == "oldest DURATION DURATION"
    assert forms.of("stream    depth") == forms.of("stream  depth") != forms.of("stream depth")
    assert forms.of("07:25:12 INFO     app  07:25:12") == "TIME INFO  app  07:25:12"
    for same in ('"id":"e-91a"', '"ts":"2025-10-18T19:55:00Z"', '"seq":1', "e-18e912e7b09e9d4f"):
        assert forms.of(same) == same

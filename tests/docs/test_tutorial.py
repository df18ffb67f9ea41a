"""The tutorial runs its own broker, kills it and starts it again: every command, as its reader would type it."""

from pathlib import Path

from tests.docs.console import assert_page_is_true, steps
from tests.docs.markdown import ROOT

TUTORIAL = ROOT / "docs/tutorial/first-ten-minutes.md"
FLOWS = ROOT / "docs/tutorial/three-flows.md"


def test_every_command_of_the_tutorial_prints_what_the_page_says(tmp_path: Path) -> None:
    assert_page_is_true(TUTORIAL, None, tmp_path)


def test_the_tutorial_shows_what_it_promises() -> None:
    commands = "\n".join(step.command for step in steps(TUTORIAL))
    for shown in ("pub", "sub", "--no-ack", "dead list", "dead replay", "--id", "agents/*", "tail", "top", "token new"):
        assert shown in commands
    assert "kill -9 %1" in commands


def test_every_command_of_the_three_flows_prints_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    assert_page_is_true(FLOWS, None, tmp_path)

"""import-linter keeps the V: it passes here, and fails when an import points up."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.test_rules import ROOT, copy_sources


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages of `tree`, whatever is installed."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    environment = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*command, "--no-cache"], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


def test_every_import_of_this_tree_points_down() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("broker/journal/writer.py", "import broker.front.enqueue", "Imports only point down the V"),
        ("broker/contracts/inbound.py", "import broker.config", "Imports only point down the V"),
        ("broker/streams/stream.py", "import apsw", "Only the journal knows SQLite"),
        ("broker/admission/gate.py", "import aiohttp", "Only the front speaks aiohttp"),
        ("edge/__init__.py", "import _fast", "The edge needs no compiler, no _fast, no uvloop, no msgspec"),
        ("_fast/__init__.py", "import broker.errors", "The compiled structures know nothing of the broker"),
    ],
)
def test_an_import_that_breaks_the_v_is_found(tmp_path: Path, module: str, statement: str, contract: str) -> None:
    copy_sources(tmp_path)
    path = tmp_path / module
    path.write_text(f"{path.read_text()}\n{statement}\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout


def test_a_new_room_must_be_given_its_layer(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    (tmp_path / "broker/attic").mkdir()
    (tmp_path / "broker/attic/__init__.py").write_text('"""A room that no layer knows."""\n')
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert "broker.attic" in result.stdout

"""The rules hold for this tree, and bite on a broken one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy import rules

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_rule_holds_for_this_tree(rule: Callable[[Path], list[str]]) -> None:
    assert rule(ROOT) == []


BROKEN: dict[Callable[[Path], list[str]], tuple[str, str]] = {
    rules.no_file_is_too_long: ("broker/long.py", '"""Long."""\n' * 401),
    rules.every_module_says_what_it_is_for: ("broker/mute.py", "x = 1\n"),
    rules.every_room_lists_its_files: ("broker/journal/hidden.py", '"""Hidden."""\n'),
    rules.every_compiled_module_has_its_contract: ("_fast/bare.pyx", '"""Bare."""\ncdef class Bare:\n    pass\n'),
    rules.compiled_modules_import_nothing_above_them: ("_fast/high.pyx", "from broker.errors import CourierError\n"),
    rules.compiled_modules_are_imported_through_their_package: ("broker/deep.py", "from _fast.ring import Ring\n"),
    rules.tests_do_not_sleep: ("tests/test_nap.py", "import time\ntime.sleep(0.1)\n"),
    rules.names_of_tests_are_sentences: ("tests/test_terse.py", "def test_it():\n    pass\n"),
    rules.no_loose_ends: ("broker/loose.py", '"""Loose."""\n# TO' + "DO later\n"),
}


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_rule_finds_what_breaks_it(rule: Callable[[Path], list[str]], tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    if rule is rules.the_top_level_is_complete:
        tree.mkdir()
        assert "setup.py is missing" in rule(tree)
        return
    (tree / "broker/journal").mkdir(parents=True)
    (tree / "broker/journal/__init__.py").write_text('"""The journal."""\n')
    for package in rules.PACKAGES:
        (tree / package).mkdir(exist_ok=True)
    assert rule(tree) == []
    name, text = BROKEN[rule]
    (tree / name).write_text(text)
    found = rule(tree)
    assert len(found) >= 1
    assert name.split("/")[1] in found[0]


def test_a_tree_is_copied_without_what_was_built(tmp_path: Path) -> None:
    """The copy that the layer test breaks must be the sources alone."""
    copy_sources(tmp_path)
    assert not list(tmp_path.rglob("*.so"))
    assert (tmp_path / "broker/app.py").exists()


def copy_sources(destination: Path) -> None:
    """Copy what import-linter reads."""
    for package in ("broker", "edge", "_fast"):
        shutil.copytree(ROOT / package, destination / package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", destination)

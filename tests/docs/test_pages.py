"""The pages cannot drift from the code that they describe."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from broker import limits
from broker.config.reference import rows as configuration_rows
from broker.extensions.reading import manifest_type
from tests.docs import pages
from tests.docs.markdown import PAGES, ROOT, blocks, inline_code, name_of, prose

EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=name_of)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", pages.PARTS)
def test_a_part_that_follows_from_the_code_is_up_to_date(name: str) -> None:
    _, make = pages.PARTS[name]
    assert pages.part(name) == make(), "write it anew with: python -m tests.docs.pages"


def test_every_error_class_is_in_the_table_with_its_code_and_status() -> None:
    found = re.findall(r"^\| `(\w+)` \| (\d+) \| (yes|no) \| \S.* \|$", pages.part("errors"), re.MULTILINE)
    known = {kind.code: kind for kind in pages.refusals()}
    assert len(found) == len(known) >= 15
    for code, status, retry in found:
        assert (int(status), retry == "yes") == (known[code].status, known[code].retryable)


def test_every_error_of_the_page_is_raised_somewhere() -> None:
    calls = {
        node.func.id
        for path in (ROOT / "broker").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert {kind.__name__ for kind in pages.refusals()} - calls == set()


def test_every_exit_code_and_every_command_is_on_the_page() -> None:
    assert len(re.findall(r"^\| \d+ \| `[A-Z]+` \| \S.* \|$", pages.part("exit codes"), re.MULTILINE)) >= 7
    shown = re.findall(r"^### `(courier[^`]*)`$", pages.part("help"), re.MULTILINE)
    assert {"courier", "courier serve", "courier pub", "courier sub", "courier config check"} <= set(shown)
    assert "courier config reference" not in shown


def test_the_map_shows_every_room() -> None:
    mapped = set(inline_code(pages.ARCHITECTURE))
    children = {path.relative_to(ROOT) for path in (ROOT / "broker").iterdir() if path.name != "__pycache__"}
    rooms = {f"{path}/" if (ROOT / path).is_dir() else f"{path}" for path in children}
    assert rooms - mapped - {"broker/__init__.py", "broker/py.typed"} == set()


def test_every_dependency_is_explained_with_its_range() -> None:
    page = ROOT / "docs/explanation/dependencies.md"
    required = set(PROJECT["project"]["dependencies"]).union(*PROJECT["dependency-groups"].values())
    required |= set(PROJECT["build-system"]["requires"]).union(*PROJECT["project"]["optional-dependencies"].values())
    required = {requirement.partition(";")[0] for requirement in required}  # which machine it is for is told in words
    explained = {code for code in inline_code(page) if re.fullmatch(r"[A-Za-z-]+(>=[\w.,<]+)?", code)}
    assert required - explained == set()
    with_range = {code for code in explained if ">=" in code}
    assert with_range - required == set()


@EVERY_PAGE
def test_a_page_names_only_targets_that_make_has(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    code = "\n".join([*inline_code(page), *(block.text for block in blocks(page))])
    assert set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", code)) - targets == set()


@EVERY_PAGE
def test_a_page_names_only_settings_that_exist(page: Path) -> None:
    keys = {row.key.strip("`") for row in (*configuration_rows(), *configuration_rows(manifest_type()))}
    keys |= {key.rpartition(".")[0] for key in keys}
    sections = "auth|data|events|journal|log|metrics|server|sources|streams|triggers|views"
    named = {code for code in inline_code(page) if re.fullmatch(rf"(?:{sections})(?:\.[a-z][A-Za-z\[\]]*)+", code)}
    assert named - keys == set()


@EVERY_PAGE
def test_a_page_starts_with_its_one_title(page: Path) -> None:
    lines = prose(page).splitlines()
    assert lines[0].startswith("# ")
    assert [line for line in lines if re.match(r"# ", line)] == lines[:1]


def test_the_bounds_of_triggers_are_those_of_the_code() -> None:
    page = (ROOT / "docs/explanation/triggers.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"- \*\*Everything has a bound\.\*\* (.*?)\n\n", page, re.DOTALL)
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", said)]
    mib = limits.TRIGGER_EMITTED_BYTES_MAX // limits.MIB
    assert numbers == [
        limits.TRIGGER_HOPS_MAX, limits.TRIGGER_EMITTED_PER_CAUSE_MAX, limits.TRIGGER_EMITTED_PER_SUBMISSION_MAX, mib,
        limits.TRIGGERS_MAX, limits.TRIGGER_ACTIONS_MAX,
    ]  # fmt: skip

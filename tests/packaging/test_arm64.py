"""`make arm64` says what it lacks before it does anything; that it works shows when it is run."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.arm64 import INSIDE, PYTHON, TEST_TOOLS, TOOLS, mark, missing

ROOT = Path(__file__).resolve().parents[2]
WORKS = "enabled\ninterpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\nflags: POF\noffset 0\n"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """One that has everything."""
    for tool in TOOLS:
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "binfmt").write_text(WORKS)
    return {"PATH": str(tmp_path)}


def test_a_machine_that_has_everything_lacks_nothing(machine: dict[str, str], tmp_path: Path) -> None:
    assert missing(machine, user=0, binfmt=tmp_path / "binfmt", python=PYTHON) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_that_is_not_there_is_named_with_its_package(
    machine: dict[str, str], tmp_path: Path, tool: str
) -> None:
    (tmp_path / tool).unlink()
    found = missing(machine, user=0, binfmt=tmp_path / "binfmt", python=PYTHON)
    assert found == [f"{tool}: apt-get install {TOOLS[tool]}"]


@pytest.mark.parametrize("entry", [None, "", WORKS.replace("POF", "PO"), WORKS.replace("enabled", "disabled")])
def test_a_kernel_that_cannot_run_arm64_inside_a_root_is_told_how(
    machine: dict[str, str], tmp_path: Path, entry: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (tmp_path / "binfmt").unlink()
    if entry is not None:
        (tmp_path / "binfmt").write_text(entry)
    (found,) = missing(machine, user=0, binfmt=tmp_path / "binfmt", python=PYTHON)
    assert found.startswith("binfmt: the kernel cannot run programs for arm64")
    assert "qemu-user-static" in found
    assert "> /proc/sys/fs/binfmt_misc/register" in found


def test_who_is_not_root_and_another_python_are_told(machine: dict[str, str], tmp_path: Path) -> None:
    user, python = missing(machine, user=1000, binfmt=tmp_path / "binfmt", python=(3, 13))
    assert user.startswith("root: ")
    assert python == "Python 3.11, that of Debian bookworm (this is 3.13): make clean; make arm64 PYTHON=python3.11"


def test_without_them_it_ends_with_all_that_is_missing_and_does_nothing(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "tests.packaging.arm64"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    first, *others = done.stderr.splitlines()
    assert first == "make arm64 needs"
    assert {f"  {tool}: apt-get install {package}" for tool, package in TOOLS.items()} <= set(others)
    assert not (tmp_path / "cache").exists()


def test_what_runs_inside_is_a_script_in_which_nothing_hides_a_failure() -> None:
    inner = INSIDE.partition("/bin/sh -euc '")[2].rpartition("'")[0]
    for script in (INSIDE, inner):
        assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0
        assert " | " not in script, "sh knows the end of the last command of a pipe only"


INSTALLED = {"pytest": "pytest", "hypothesis": "hypothesis", "websockets": "websockets"}
"""What a module of the tests is called, and the package that it is in."""


def test_what_the_emulated_tests_import_is_installed_there() -> None:
    found = set()
    for path in (ROOT / "tests/fast").glob("*.py"):
        found |= set(re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
    others = found - sys.stdlib_module_names - {"_fast", "apsw", "broker", "orjson", "tests"}
    assert {INSTALLED[name] for name in others} <= set(TEST_TOOLS)


def inside(tmp_path: Path, passed: str) -> str:
    """What the inner script prints, with a shell that says what it is told to do and does nothing."""
    inner = INSIDE.partition("/bin/sh -euc '")[2].rpartition("'")[0].partition("    if [ ")[2]
    says = tmp_path / "says"
    says.write_text('#!/bin/sh\necho "$@"\n')
    says.chmod(0o755)
    script = f"pip={says}\nif [ {inner}".replace("/opt/courier/bin/python", str(says))
    environment = os.environ | {"PASSED": passed}
    done = subprocess.run(
        ["sh", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_tests_run_in_a_process_for_each_core_unless_they_have_passed(tmp_path: Path) -> None:
    assert "--numprocesses auto" in inside(tmp_path, "no")
    assert (
        inside(tmp_path, "yes") == "  tests/fast: passed before, with the same wheel, tests and tools; not run again\n"
    )


def tree(place: Path) -> Path:
    """A tree with one test, and its wheel."""
    (place / "tests/fast").mkdir(parents=True)
    (place / "tests/support").mkdir()
    (place / "tests/conftest.py").write_text("")
    (place / "tests/fast/test_ring.py").write_text("1")
    (place / "pyproject.toml").write_text("")
    pack(place, code=b"code", record=b"1")
    return place


def pack(place: Path, *, code: bytes, record: bytes) -> None:
    with zipfile.ZipFile(place / "one.whl", "w") as archive:
        archive.writestr("_fast/ring.so", code)
        archive.writestr("courier.dist-info/RECORD", record)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a compiled module": lambda place: pack(place, code=b"other", record=b"1"),
    "a test": lambda place: (place / "tests/fast/test_ring.py").write_text("2"),
    "a new test": lambda place: (place / "tests/fast/test_new.py").write_text(""),
    "what all tests share": lambda place: (place / "tests/conftest.py").write_text("x"),
    "what some tests share": lambda place: (place / "tests/support/new.py").write_text(""),
    "the settings of the tests": lambda place: (place / "pyproject.toml").write_text("x"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_tests_run_again_when_what_they_test_or_what_they_are_has_changed(tmp_path: Path, change: str) -> None:
    place, wheels = tree(tmp_path), tmp_path / "wheels-1"
    before = mark(tmp_path, place / "one.whl", wheels, place)
    assert mark(tmp_path, place / "one.whl", wheels, place) == before
    CHANGES[change](place)
    assert mark(tmp_path, place / "one.whl", wheels, place) != before


def test_other_tools_are_another_run_and_another_record_of_the_same_files_is_none(tmp_path: Path) -> None:
    place = tree(tmp_path)
    before = mark(tmp_path, place / "one.whl", tmp_path / "wheels-1", place)
    assert mark(tmp_path, place / "one.whl", tmp_path / "wheels-2", place) != before
    pack(place, code=b"code", record=b"2")
    assert mark(tmp_path, place / "one.whl", tmp_path / "wheels-1", place) == before

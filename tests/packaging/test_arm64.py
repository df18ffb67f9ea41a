"""`make arm64` says what it lacks before it does anything; that it works shows when it is run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.arm64 import INSIDE, PYTHON, TOOLS, missing

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

"""What is released, for which machines, and by what: the configuration of cibuildwheel, and the workflow."""

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github/workflows/wheels.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("cp311", "cp312", "cp313", "cp314")
LIBCS = ("manylinux", "musllinux")
MACHINES = ("x86_64", "aarch64")


def tool(name: str, *arguments: str) -> str:
    """Run a tool of this environment on the tree; what it prints."""
    done = subprocess.run(
        [Path(sys.executable).with_name(name), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())
    return loaded


@pytest.mark.parametrize("machine", MACHINES)
def test_cibuildwheel_builds_for_every_python_and_libc_and_not_without_the_gil(machine: str) -> None:
    printed = tool("cibuildwheel", "--print-build-identifiers", "--platform", "linux", "--archs", machine)
    assert set(printed.split()) == {f"{python}-{libc}_{machine}" for python in PYTHONS for libc in LIBCS}


def test_the_pythons_are_those_that_the_package_says_it_runs_on() -> None:
    said = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert said == {f"3.{python.removeprefix('cp3')}" for python in PYTHONS}


def test_the_workflow_builds_each_of_them_by_itself(workflow: dict[str, Any]) -> None:
    job = workflow["jobs"]["wheels"]
    matrix = job["strategy"]["matrix"]
    assert (tuple(matrix["python"]), tuple(matrix["libc"]), tuple(matrix["arch"])) == (PYTHONS, LIBCS, MACHINES)
    (build,) = (step for step in job["steps"] if "cibuildwheel --archs" in step.get("run", ""))
    for python, libc in itertools.product(PYTHONS, LIBCS):
        chosen = build["env"]["CIBW_BUILD"].replace("${{ matrix.python }}", python).replace("${{ matrix.libc }}", libc)
        assert chosen == f"{python}-{libc}_*"
    assert "ubuntu-24.04-arm" in job["runs-on"], "aarch64 is built on its own kind of machine"
    (count,) = (step["run"] for step in workflow["jobs"]["check"]["steps"] if "wc -l" in step.get("run", ""))
    assert count.endswith(f"= {len(PYTHONS) * len(LIBCS) * len(MACHINES)}")


def test_nothing_is_published_before_each_wheel_was_tested(workflow: dict[str, Any]) -> None:
    command = PROJECT["tool"]["cibuildwheel"]["test-command"]
    assert (ROOT / command.removeprefix("python {project}/")).is_file()
    assert not {"test-skip", "test-requires"} & PROJECT["tool"]["cibuildwheel"].keys()
    jobs = workflow["jobs"]
    assert jobs["publish"]["needs"] == ["check"]
    assert jobs["check"]["needs"] == ["wheels", "sources"]
    assert "refs/tags/v" in jobs["publish"]["if"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


def test_an_auditor_finds_nothing_in_the_workflow(tmp_path: Path) -> None:
    arguments = ("--offline", "--no-progress", "--no-config")
    tool("zizmor", *arguments, str(WORKFLOW))
    careless = tmp_path / ".github/workflows/careless.yml"
    careless.parent.mkdir(parents=True)
    careless.write_text(re.sub(r"@[0-9a-f]{40} # \S+", "@main", WORKFLOW.read_text()))
    with pytest.raises(AssertionError, match="unpinned"):
        tool("zizmor", *arguments, str(careless))

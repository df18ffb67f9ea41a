"""The wheel holds what runs, the sdist holds what builds it, and both give the same wheel."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from _fast import DEBUG_BUILD

ROOT = Path(__file__).resolve().parents[2]
MODULES = {path.stem for path in (ROOT / "_fast").glob("*.pyx")}

pytestmark = pytest.mark.skipif(DEBUG_BUILD, reason="the distribution is the release build, tested with that")


def build(source: Path, into: Path, *kinds: str) -> list[Path]:
    """Build distributions with the build tools that are installed already."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(into), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return sorted(into.iterdir())


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (made,) = build(ROOT, tmp_path_factory.mktemp("sdist"), "--sdist")
    return made


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the unpacked sdist: nothing of the checkout can leak into it."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (tree,) = unpacked.iterdir()
    (made,) = build(tree, tmp_path_factory.mktemp("wheel"), "--wheel")
    return made


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_sdist_holds_the_sources_and_nothing_generated(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        files = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    assert {f"_fast/{module}.pyx" for module in MODULES} <= files
    assert {"_fast/sqlite_api.h", "_fast/held.pxd", "setup.py", "LICENSE", "tests/fast/models.py"} <= files
    assert not {name for name in files if name.endswith((".c", ".so")) or name.startswith("build/")}


def test_the_wheel_holds_the_compiled_modules_with_their_types_and_no_sources(wheel: Path) -> None:
    files = names(wheel)
    compiled = {name.split("/")[1].split(".")[0] for name in files if name.endswith(".so")}
    assert compiled == MODULES
    assert {f"_fast/{module}.pyi" for module in MODULES} <= files
    assert {"_fast/py.typed", "broker/py.typed", "edge/py.typed"} <= files
    schemas = {str(path.relative_to(ROOT)) for path in (ROOT / "broker").rglob("*.json")}
    assert len(schemas) >= 2
    assert {name for name in files if name.endswith(".json")} == schemas
    assert not {name for name in files if name.endswith((".c", ".h", ".pyx", ".pxd"))}
    assert not {name for name in files if name.startswith(("tests/", "bench/"))}


def test_the_wheel_holds_every_module_of_the_tree(wheel: Path) -> None:
    tree = {
        str(path.relative_to(ROOT))
        for package in ("broker", "edge", "_fast")
        for path in (ROOT / package).rglob("*.py")
    }
    assert {name for name in names(wheel) if name.endswith(".py")} == tree


def test_the_checkout_builds_the_same_wheel_as_the_sdist(wheel: Path, tmp_path: Path) -> None:
    (direct,) = build(ROOT, tmp_path, "--wheel")
    assert direct.name == wheel.name
    assert names(direct) == names(wheel)


def test_the_installed_wheel_runs_where_the_sources_are_not(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    site = next(environment.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "dependencies.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    code = "import _fast, broker.app; print(_fast.DEBUG_BUILD, _fast.__file__)"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = subprocess.run(
        [environment / "bin/python", "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == f"False {site}/_fast/__init__.py", result.stderr

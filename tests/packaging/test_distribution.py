"""The wheel holds what runs, the sdist holds what builds it, and both give the same wheel."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from _fast import DEBUG_BUILD

ROOT = Path(__file__).resolve().parents[2]
MODULES = {path.stem for path in (ROOT / "_fast").glob("*.pyx")}

pytestmark = pytest.mark.skipif(DEBUG_BUILD, reason="the distribution is the release build, tested with that")


def build(source: Path, into: Path, *kinds: str) -> list[Path]:
    """Build distributions with the build tools that are installed already; nothing may warn."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(into), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    said = (result.stdout + result.stderr).splitlines()
    # Whether Python may write byte code is a setting of whoever runs this, and no fault of the tree.
    assert [line for line in said if "warning" in line.lower() and "byte-compiling" not in line] == []
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


def tool(name: str, *arguments: str) -> str:
    """Run a tool of this environment; what it prints."""
    command = [Path(sys.executable).with_name(name), *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_sdist_holds_the_sources_and_nothing_generated(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        files = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    assert {f"_fast/{module}.pyx" for module in MODULES} <= files
    assert {"_fast/sqlite_api.h", "_fast/held.pxd", "setup.py", "LICENSE", "tests/fast/models.py"} <= files
    generated = {name for name in files if name.endswith((".c", ".so")) or name.startswith("build/")}
    assert generated == {"bench/systems/slow_sync.c"}  # which is written by hand


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


def test_twine_and_check_wheel_contents_find_nothing(sdist: Path, wheel: Path) -> None:
    tool("twine", "check", "--strict", str(sdist), str(wheel))
    tool("check-wheel-contents", str(wheel))


def test_the_wheel_needs_no_library_but_libc(wheel: Path) -> None:
    said = tool("auditwheel", "show", str(wheel))
    needed = re.search(r"shared libraries: (.*?) with\s+versions", said, re.DOTALL)
    assert needed is not None, said
    assert needed[1] == "libc.so.6"
    tag = re.search(r'platform tag: "manylinux_2_(\d+)_', " ".join(said.split()))
    assert tag is not None, said
    assert int(tag[1]) <= 28, "Raspberry Pi OS 11, the oldest that is looked after, has glibc 2.31"


def test_the_modules_have_no_symbols_and_the_wheel_is_small(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modules = [name for name in archive.namelist() if name.endswith(".so")]
        archive.extractall(tmp_path, modules)
    assert len(modules) == len(MODULES)
    for module in modules:
        with (tmp_path / module).open("rb") as file:
            elf = ELFFile(file)
            sections = [section.name for section in elf.iter_sections()]
            tags = elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
            needed = {tag.needed for tag in tags}
        assert [library for library in needed if not library.startswith(("libc.so.", "ld-linux"))] == []
        assert ".dynsym" in sections
        assert not {name for name in sections if name == ".symtab" or name.startswith(".debug")}
    assert wheel.stat().st_size < 1_500_000, "what a wheel weighs is said in docs/explanation/dependencies.md"

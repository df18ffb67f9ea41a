"""The edge alone as a wheel: plain Python for any machine, with three requirements."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, into = tmp_path_factory.mktemp("edge") / "edge", tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "edge", source, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(into), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    (made,) = into.iterdir()
    return made


def test_the_wheel_is_for_any_machine_and_holds_every_module_of_the_edge(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {str(path.relative_to(ROOT)) for path in (ROOT / "edge").rglob("*.py")} | {"edge/py.typed"}


def test_it_needs_what_the_broker_needs_of_the_same_and_nothing_else() -> None:
    ours, theirs = (tomllib.loads((ROOT / name).read_text()) for name in ("edge/pyproject.toml", "pyproject.toml"))
    assert [each.partition(">")[0] for each in ours["project"]["dependencies"]] == ["aiohttp", "apsw", "orjson"]
    assert set(ours["project"]["dependencies"]) <= set(theirs["project"]["dependencies"])
    assert ours["project"]["version"] == theirs["project"]["version"]
    assert ours["project"]["scripts"].items() <= theirs["project"]["scripts"].items()


def test_it_runs_where_the_broker_is_not(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COURIER_"))}
    done = subprocess.run(
        [sys.executable, "-m", "edge", "send", "{}", "--device-id", "pi-1", "--path", "outbox.db"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, '"status":"queued"' in done.stdout) == (0, True), done.stderr

"""The two commands: what is up to date is not built again, and help lists what there is."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make(*arguments: str) -> str:
    result = subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(
    not (ROOT / ".venv/.built").exists(), reason="not started by make: there is nothing to be up to date"
)
@pytest.mark.parametrize("target", ["serve", "test", "check", "bench"])
def test_a_second_call_builds_nothing(target: str) -> None:
    planned = make("--dry-run", target)
    assert "install" not in planned
    assert "build_ext" not in planned


def test_serve_takes_port_and_data_directory() -> None:
    planned = make("--dry-run", "serve", "PORT=9001", "DATA=/somewhere")
    assert "courier serve --port 9001 --data /somewhere" in planned
    assert "courier serve --port 8787 --data ./data" in make("--dry-run", "serve")


def test_help_lists_every_target() -> None:
    listed = {line.split()[1] for line in make("help").splitlines()}
    assert {
        "serve",
        "test",
        "test-debug",
        "check",
        "bench",
        "torture",
        "wheel",
        "arm64",
        "bench-board",
        "clean",
    } <= listed

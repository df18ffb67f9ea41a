"""The edge on a 32-bit Pi: it runs where nothing can be imported that has no wheel there."""

import asyncio
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import Connect, StartBroker
from tests.support.process import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
NOT_THERE = ("_fast", "broker", "click", "google", "grpc", "jsonschema_rs", "msgspec", "uvloop", "yaml")
WITHOUT_A_WHEEL = ("jsonschema-rs", "msgspec", "PyYAML", "uvloop")
"""What the broker requires and has no wheel for armv7l, as of this writing: looked up in the package index."""

SITE = f"""
import sys
class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_THERE!r}:
            raise ModuleNotFoundError(f"{{name}} is not there, as on a 32-bit Pi", name=name)
sys.meta_path.insert(0, NotThere())
"""


@pytest.fixture
def pi(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python that has the edge, and nothing that a 32-bit Pi has not."""
    place = tmp_path / "site"
    place.mkdir()
    (place / "sitecustomize.py").write_text(SITE)
    (place / "edge").symlink_to(ROOT / "edge")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COURIER_"))}
    return kept | {"PYTHONPATH": str(place), "PYTHONUNBUFFERED": "1"}


def python(pi: Mapping[str, str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(
        command, env=pi, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


@pytest.mark.parametrize("module", NOT_THERE)
def test_what_is_not_there_cannot_be_imported(pi: dict[str, str], tmp_path: Path, module: str) -> None:
    done = python(pi, "-c", f"import {module}", cwd=tmp_path)
    assert f"{module} is not there, as on a 32-bit Pi" in done.stderr


def test_every_module_of_the_edge_is_imported(pi: dict[str, str], tmp_path: Path) -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / "edge").rglob("*.py"))
        if path.name != "__main__.py"
    ]
    assert len(modules) > 30
    done = python(pi, "-c", "\n".join(f"import {module}" for module in modules), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


async def test_events_go_from_its_outbox_to_a_broker(
    pi: dict[str, str], tmp_path: Path, broker_process: StartBroker, connect: Connect
) -> None:
    settings = ("--device-id", "pi-1", "--path", "outbox.db")
    sent = await asyncio.to_thread(
        python, pi, "-m", "edge", "send", '{"door": 3}', "--type", "door.opened", *settings, cwd=tmp_path
    )
    assert sent.returncode == 0, sent.stderr
    broker = broker_process()
    program = f"""
import time
from edge import SyncEdge
with SyncEdge("ws://127.0.0.1:{broker.port}", path="outbox.db", device_id="pi-1") as edge:
    edge.put({{"type": "door.closed", "payload": {{"door": 3}}}})
    while edge.status().depth:
        time.sleep(0.01)
"""
    drained = await asyncio.to_thread(python, pi, "-c", program, cwd=tmp_path)
    assert (drained.returncode, drained.stderr) == (0, "")
    client = await connect(broker.url)
    async with client.subscribe("devices/pi-1/events") as subscriber:
        await subscriber.credit(2)
        taken = [(await subscriber.delivery())["deliver"] for _ in range(2)]
    assert [each["type"] for each in taken] == ["door.opened", "door.closed"]


def test_on_armv7l_nothing_is_required_that_has_no_wheel_there() -> None:
    broker, edge = (
        tomllib.loads((ROOT / name).read_text())["project"]["dependencies"]
        for name in ("pyproject.toml", "edge/pyproject.toml")
    )
    pi = {"platform_machine": "armv7l"}
    every = map(Requirement, [*broker, *edge])
    required = [each.name for each in every if each.marker is None or each.marker.evaluate(pi)]
    assert sorted(required) == ["aiohttp", "aiohttp", "apsw", "apsw", "click", "cronsim", "orjson", "orjson"]
    assert {name.lower() for name in WITHOUT_A_WHEEL} & {name.lower() for name in required} == set()


@pytest.mark.parametrize("module", ["_fast", "msgspec", "uvloop", "yaml"])
def test_the_command_of_the_broker_says_why_it_cannot_run_there(tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE.replace(repr(NOT_THERE), repr((module,))))
    path = f"{tmp_path}:{ROOT}"
    done = python(os.environ | {"PYTHONPATH": path}, "-m", "broker", "serve", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"courier: {module} is not installed, and the broker needs it. 32-bit systems")


@pytest.mark.parametrize(("machine", "code"), [("armv7l", 0), ("aarch64", 1)])
def test_without_a_compiler_only_a_32_bit_pi_is_content(machine: str, code: int, tmp_path: Path) -> None:
    program = (
        f"import platform, runpy, sys; platform.machine = lambda: {machine!r}; "
        f"sys.argv = ['setup.py', 'build_ext', '--force', '--build-temp', {str(tmp_path)!r}, "
        f"'--build-lib', {str(tmp_path / 'lib')!r}]; runpy.run_path('setup.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ | {"CC": "false"}, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert not list(tmp_path.rglob("*.so"))

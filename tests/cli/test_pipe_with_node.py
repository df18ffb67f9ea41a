"""A real Node program starts Courier from its own manifest, as a stream kernel does, and pipes both ways."""

import json
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import PATIENCE_SECONDS, courier, environment

NODE = shutil.which("node")
KERNEL = Path(__file__).parents[1] / "support/kernel.mjs"

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node here; install the Debian package nodejs")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def kernel(tmp_path: Path, scenario: str, *options: str) -> dict[str, Any]:
    """Run a scenario with the manifest that these options give; what the kernel says at its end."""
    made = courier("manifest", "--data", str(tmp_path / "data"), *options, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(made.stdout)
    assert NODE is not None
    ended = subprocess.run(
        [NODE, str(KERNEL), str(manifest), scenario],
        env=environment(),
        capture_output=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    said: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return said


def test_a_kernel_pipes_both_ways_and_every_event_is_done_once(tmp_path: Path) -> None:
    assert kernel(tmp_path, "both_ways", "--no-http") == {"code": 0, "enqueued": 2000, "delivered": 2000}


def test_a_kernel_that_stops_reading_is_leased_a_bounded_number_of_events(tmp_path: Path) -> None:
    said = kernel(tmp_path, "backpressure", "--port", str(free_port()))
    inflight = said.pop("inflight")
    assert said == {"code": 0, "delivered": 200, "inOrder": True}
    in_flight_max = 8 + 5 + 32  # the window, one write, and what the system and Node keep of 64 KiB each
    assert 8 <= inflight <= in_flight_max


def test_a_bad_line_does_not_end_the_conversation(tmp_path: Path) -> None:
    said = kernel(tmp_path, "bad_line", "--no-http")
    assert said == {"code": 0, "error": "invalid_request", "line": 1, "enqueued": "e-1"}

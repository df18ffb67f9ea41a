"""What the pages of the edge show is true."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from edge.config import FIELDS, load
from edge.service import unit
from tests.conftest import StartBroker
from tests.docs.markdown import ROOT, blocks
from tests.support.process import PATIENCE_SECONDS, environment

HOW_TO = ROOT / "docs/how-to/outbox-on-a-pi.md"


def test_the_program_of_the_how_to_prints_what_the_page_says(broker_process: StartBroker) -> None:
    broker = broker_process()
    (program,) = blocks(HOW_TO, "python")
    (output,) = blocks(HOW_TO, "text")
    script = broker.data.parent / "device.py"
    script.write_text(program.text.replace("127.0.0.1:8787", f"127.0.0.1:{broker.port}"))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        env=environment(),
        cwd=broker.data.parent,
        timeout=PATIENCE_SECONDS,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == (output.text, 0), done.stderr


def test_the_settings_of_the_how_to_are_taken(tmp_path: Path) -> None:
    (block,) = blocks(HOW_TO, "toml")
    found = tomllib.loads(block.text)
    assert found.keys() - FIELDS.keys() == {"lanes"}
    file = tmp_path / "edge.toml"
    file.write_text(block.text)
    settings = load(file, {}, {})
    assert settings.lane_bounds()["telemetry"].drop_oldest
    assert settings.device == "pi-livingroom-01"


def test_the_paths_of_the_how_to_are_those_of_the_unit() -> None:
    text = HOW_TO.read_text()
    made = unit("courier-edge", Path("/etc/courier-edge.toml"))
    for name in re.findall(r"COURIER_EDGE_[A-Z]+=\S+", text):
        assert name in made

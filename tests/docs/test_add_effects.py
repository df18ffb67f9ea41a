"""The effect of the how-to runs in `courier serve`, once for an event that is sent twice."""

import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import yaml

from tests.conftest import StartBroker
from tests.docs.console import assert_page_is_true
from tests.docs.markdown import ROOT, blocks
from tests.support.process import courier

PAGE = ROOT / "docs/how-to/add-effects.md"


def test_the_effect_of_the_page_happens_once(broker_process: StartBroker, tmp_path: Path) -> None:
    (program,) = blocks(PAGE, "python")
    (settings,) = blocks(PAGE, "yaml")
    (tmp_path / "matches.py").write_text(program.text)
    broker = broker_process(config=yaml.safe_load(settings.text))
    assert_page_is_true(PAGE, broker)
    with closing(apsw.Connection(str(broker.data / "courier.db"))) as connection:
        assert connection.execute("SELECT server, begun FROM my_matches").fetchall() == [("local", 1)]


def test_a_broken_file_is_said_as_the_page_says(tmp_path: Path) -> None:
    (message,) = blocks(PAGE, "text")
    (tmp_path / "matches.py").write_text("\n\n\nimport no_such\n")
    (tmp_path / "courier.yaml").write_text("effects: [matches.py]\n")
    ended: subprocess.CompletedProcess[bytes] = courier(
        "serve", "--port", "0", "--config", "courier.yaml", "--data", str(tmp_path / "data"), cwd=tmp_path
    )
    assert (ended.returncode, ended.stderr.decode()) == (78, message.text)
    assert not (tmp_path / "data").exists(), "nothing was opened"

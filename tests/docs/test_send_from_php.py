"""The plugin of the how-to prints what the how-to says."""

import shutil
import subprocess

import pytest

from tests.conftest import StartBroker
from tests.docs.console import HOST
from tests.docs.markdown import ROOT, blocks
from tests.support import ledger
from tests.support.process import PATIENCE_SECONDS, environment

PAGE = ROOT / "docs/how-to/send-from-php.md"


@pytest.mark.skipif(shutil.which("php") is None, reason="php is not installed")
def test_the_plugin_of_the_page_prints_what_the_page_says(broker_process: StartBroker) -> None:
    broker = broker_process()
    (program,), (output,) = blocks(PAGE, "php"), blocks(PAGE, "text")
    script = broker.data.parent / "send.php"
    script.write_text(program.text.replace(HOST, f"127.0.0.1:{broker.port}"))
    ended = subprocess.run(
        ["php", str(script)], capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=environment(), check=False
    )
    assert (ended.returncode, ended.stdout) == (0, output.text), ended.stderr
    assert ledger.rows(broker.data, "notes, last_transport_attempt") == [
        ('{"server_login":"stadium-1","plugin_version":"1.0.0"}', 2)
    ]

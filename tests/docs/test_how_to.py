"""The consumer of the how-to takes the events of the how-to."""

import subprocess
import sys

from tests.conftest import StartBroker
from tests.docs.console import HOST, Console, steps
from tests.docs.markdown import ROOT, blocks
from tests.support.process import PATIENCE_SECONDS, environment

PAGE = ROOT / "docs/how-to/run-as-first-event.md"


def test_the_consumer_of_the_page_prints_what_the_page_says(broker_process: StartBroker) -> None:
    broker = broker_process()
    console = Console(broker)
    for step in steps(PAGE):
        console.run(step.command)
    (program,) = blocks(PAGE, "python")
    (output,) = blocks(PAGE, "text")
    script = broker.data.parent / "consumer.py"
    script.write_text(program.text.replace(HOST, f"127.0.0.1:{broker.port}"))
    consumer = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(), text=True
    )
    try:
        assert consumer.stdout is not None
        lines = [consumer.stdout.readline() for _ in output.text.splitlines()]
        assert "".join(lines) == output.text
        assert broker.terminate_and_wait() == 0
        assert consumer.wait(PATIENCE_SECONDS) == 0, "it ends with its connection"
    finally:
        consumer.kill()
        consumer.wait()
        if consumer.stdout is not None:
            consumer.stdout.close()

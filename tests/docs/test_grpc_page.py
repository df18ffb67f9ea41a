"""The program of the gRPC page, run against a real broker."""

import sys
from pathlib import Path

from tests.conftest import StartBroker
from tests.docs.markdown import ROOT, blocks
from tests.docs.test_embedded_pages import run
from tests.support.skyra_grpc import ON

PAGE = ROOT / "docs/reference/grpc.md"


def test_the_client_of_the_page_prints_what_the_page_says(broker_process: StartBroker, tmp_path: Path) -> None:
    program, output = blocks(PAGE, "python", "text")
    address = broker_process(config=ON)._line().rpartition(" ")[2]
    text = program.text.replace("127.0.0.1:50051", address)
    assert run([sys.executable], text, tmp_path) == output.text
    assert run([sys.executable], text, tmp_path) == output.text.replace("new", "again")

"""The broker that the pages are held against."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartBroker
from tests.support.process import PATIENCE_SECONDS, BrokerProcess


class PageBroker(BrokerProcess):
    """Waits for a line by reading it. A `select` before that does not see what is in the reader's buffer already."""

    def _line(self) -> str:
        assert self.process.stdout is not None
        too_late = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        too_late.start()
        try:
            line = self.process.stdout.readline().decode()
        finally:
            too_late.cancel()
            too_late.join()
        assert line.endswith("\n"), f"the broker did not start: {self.stderr_lines}"
        self.stdout_lines.append(line[:-1])
        return line[:-1]


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[StartBroker]:
    """Start `courier serve` on a free port: `broker_process(env=…)`."""
    with ExitStack() as started:

        def start(**options: Any) -> BrokerProcess:
            return started.enter_context(PageBroker(tmp_path / "data", **options))

        yield start

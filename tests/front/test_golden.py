"""The requests and answers of the documents, as files: byte for byte in meaning."""

from pathlib import Path

import pytest

from broker.clock import ManualClock
from tests.conftest import Connect, StartApp
from tests.support import golden
from tests.support.writer import stored

CONTRACTS = ("skyra", "pixel", "cloudevents")
FILES = [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for each in CONTRACTS for path in golden.files(each)]


@pytest.mark.parametrize("path", FILES)
async def test_every_exchange_of_a_golden_file_is_held(path: Path, start_app: StartApp, connect: Connect) -> None:
    told = golden.load(path)
    clock = ManualClock()
    app = await start_app(told.get("config"), clock=clock)
    await golden.hold(told, await connect(app.server.address), clock)
    assert len(await stored(app)) == told["stored"]
    assert len(await golden.rejections(app)) == told["rejections"]

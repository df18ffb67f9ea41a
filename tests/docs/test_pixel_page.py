"""The effect of the Pixel page is one that the broker runs."""

import ast
import inspect
from pathlib import Path
from typing import Any

import msgspec

from broker.app import App
from broker.config import Config
from tests.conftest import Connect
from tests.docs.markdown import ROOT, blocks
from tests.support.pixel import disposition, numbered

PAGE = ROOT / "docs/reference/pixel.md"


async def test_the_effect_of_the_page_happens_once(tmp_path: Path, connect: Connect) -> None:
    (program,) = blocks(PAGE, "python")
    here = msgspec.convert({"data": str(tmp_path / "data"), "server": {"port": 0}}, Config)
    known: dict[str, Any] = {"here": here}
    text = program.text.replace("Config()", "here")
    code = compile(text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, known)
    assert inspect.isawaitable(running)
    await running
    app: App = known["app"]
    try:
        await app.journal.execute(
            lambda c: c.execute("CREATE TABLE my_matches (server, begun); INSERT INTO my_matches VALUES ('local', 0)")
        )
        client = await connect(app.server.address)
        for _ in range(3):
            await disposition(client, numbered(1))
        begun = await app.journal.execute(lambda c: c.execute("SELECT begun FROM my_matches").get)
        assert begun == 1
    finally:
        await app.drain()

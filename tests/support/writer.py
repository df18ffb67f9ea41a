"""The writer thread, held still; and what it has put on disk."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from broker.app import App

PATIENCE_SECONDS = 20.0


@asynccontextmanager
async def held_writer(app: App) -> AsyncIterator[threading.Event]:
    """Keep the writer inside a group commit until the end of the block, or until the event is set."""
    entered, release = threading.Event(), threading.Event()

    def job(_connection: Any) -> None:
        entered.set()
        assert release.wait(PATIENCE_SECONDS)

    holding = asyncio.create_task(app.journal.execute(job))
    assert await asyncio.to_thread(entered.wait, PATIENCE_SECONDS)
    try:
        yield release
    finally:
        release.set()
        await holding


async def eventually(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0)


async def stored(app: App, columns: str = "source_event_id", where: str = "1") -> list[Any]:
    """Columns of the ledger, after everything that was decided so far; a single column comes without its tuple.

    The state changes that wait are committed with the job, and before it.
    """

    def job(connection: Any) -> list[Any]:
        found = connection.execute(f"SELECT {columns} FROM ledger WHERE {where} ORDER BY seq").fetchall()
        return [row[0] for row in found] if "," not in columns else found

    return await app.journal.execute(job)

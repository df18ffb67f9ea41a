"""Outboxes for tests of the edge."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

from edge import EdgeError, Outbox, limits

OpenOutbox = Callable[..., Awaitable[Outbox]]


@pytest.fixture(autouse=True)
def _small_reserves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a thousand tests would fill the disk of whoever runs them."""
    monkeypatch.setattr(limits, "RESERVE_BYTES", 64 * limits.KIB)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the outbox of the test is."""
    return tmp_path / "listener_outbox.db"


@pytest.fixture
async def open_outbox(path: Path) -> AsyncIterator[OpenOutbox]:
    """`await open_outbox(bounds=…, clock=…)`; closed after the test."""
    async with AsyncExitStack() as opened:

        async def start(**options: Any) -> Outbox:
            given = {"device_id": "pi-1", **options}
            return await opened.enter_async_context(Outbox(given.pop("path", path), **given))

        yield start


@pytest.fixture
async def outbox(open_outbox: OpenOutbox) -> Outbox:
    """An outbox with the defaults."""
    return await open_outbox()


def rows(path: Path, columns: str) -> list[Any]:
    """What the file holds, as somebody else reads it, in the order of the puts."""
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(f"SELECT {columns} FROM outbox ORDER BY rowid").fetchall()
    finally:
        connection.close()


def ids(path: Path) -> list[str]:
    """The events in the file, in the order of the puts."""
    return [event_id for (event_id,) in rows(path, "event_id")]


def event(event_id: str, payload: Any = 1) -> dict[str, Any]:
    """A small event, whole but for its device."""
    return {
        "event_id": event_id,
        "type": "t",
        "ts": "2026-01-01T00:00:00Z",
        "session_id": "s",
        "payload": {"n": payload},
    }


async def put_all(outbox: Outbox, *event_ids: str, size: int = 1) -> list[str]:
    """Put one after the other; those that were put when one was refused, on its error."""
    done: list[str] = []
    try:
        for event_id in event_ids:
            await outbox.put(event(event_id, "x" * size))
            done += [event_id]
    except EdgeError as error:
        error.add_note(" ".join(done))
        raise
    return done

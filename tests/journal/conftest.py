"""A real journal in a temporary directory, and events to put into it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from broker.clock import ManualClock
from broker.config import Journal as JournalConfig
from broker.contracts.inbound import InboundEvent
from broker.journal.connection import FILE_NAME
from broker.journal.journal import Journal


def event(
    identity: str, *, stream: str = "s", envelope: bytes | None = None, at: int = 1_000_000, **more: Any
) -> InboundEvent:
    """An event of the Courier contract with a small envelope."""
    body = envelope if envelope is not None else b'{"id":"%b"}' % identity.encode()
    digest = hashlib.sha256(body).digest()
    return InboundEvent("courier", stream, "t", f"stream:{stream}", identity, at, body, digest, **more)


OpenJournal = Callable[..., Awaitable[Journal]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def open_journal(tmp_path: Path, clock: ManualClock) -> AsyncIterator[OpenJournal]:
    """Opens journals in the test's directory; what the test left open is closed at its end."""
    opened: list[Journal] = []

    async def open_one(**settings: Any) -> Journal:
        journal = await Journal.open(tmp_path, msgspec.structs.replace(JournalConfig(), **settings), clock)
        opened.append(journal)
        return journal

    yield open_one
    for journal in opened:
        await journal.close()


@pytest.fixture
async def journal(open_journal: OpenJournal) -> Journal:
    return await open_journal()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop and the writer go on until something holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for happens on another thread
            await asyncio.sleep(0)


def rows(directory: Path, sql: str, *values: Any) -> list[Any]:
    """Query the journal of a directory from outside."""
    connection = apsw.Connection(str(directory / FILE_NAME), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()

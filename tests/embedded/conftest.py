"""A broker inside the test, on disk or in memory: one body runs on both where they promise the same."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker import Broker, Pipe
from broker.core import DurableCore
from tests.support.events import STREAM, envelope
from tests.support.writer import PATIENCE_SECONDS


@pytest.fixture(params=["durable", "memory"])
def data_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the broker is opened; None for one in memory."""
    return tmp_path / "data" if request.param == "durable" else None


@pytest.fixture
async def durable(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker on disk."""
    async with Broker.open(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
async def memory() -> AsyncIterator[Broker]:
    """A broker in memory."""
    async with Broker.open(None) as broker:
        yield broker


def core_of(broker: Broker) -> DurableCore:
    """The core of a broker on disk, for what looks at its journal."""
    assert isinstance(broker._core, DurableCore)
    return broker._core


async def enqueue(broker: Broker, *event_ids: str, to: str = STREAM) -> None:
    """Enqueue envelopes with these ids, together."""
    await broker.enqueue_many([(to, envelope(event_id, to)) for event_id in event_ids])


def ids(count: int) -> list[str]:
    """So many ids."""
    return [f"e-{number}" for number in range(count)]


def request(event_id: str, to: str = STREAM) -> dict[str, Any]:
    """What stands behind `enqueue` in a command."""
    return {"to": to, "envelope": envelope(event_id, to)}


async def read(pipe: Pipe, count: int) -> list[dict[str, Any]]:
    """The next messages."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await anext(pipe) for _ in range(count)]


async def one(pipe: Pipe) -> dict[str, Any]:
    """The next message."""
    (message,) = await read(pipe, 1)
    return message


async def error(pipe: Pipe) -> dict[str, Any]:
    """The next message, which must be an error."""
    message = await one(pipe)
    assert message.keys() == {"error"}, message
    found: dict[str, Any] = message["error"]
    return found


def depth_and_inflight(broker: Broker) -> tuple[int, int]:
    """How many events wait, and how many are out."""
    figures = broker.stats(STREAM)
    return figures["depth"], figures["inflight"]

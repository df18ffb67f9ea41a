"""A registry on a ledger in memory, with a clock that stands still."""

from collections.abc import AsyncIterator

import pytest

from broker.clock import ManualClock
from broker.config import Streams
from broker.streams.registry import Registry
from tests.support.streams import FakeLedger


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


@pytest.fixture
async def registry(clock: ManualClock, ledger: FakeLedger) -> AsyncIterator[Registry]:
    registry = Registry(Streams(default_lease_ms=1000, max_deliveries=3), clock, ledger)
    yield registry
    await registry.close()

"""A broker whose scheduler is driven by a clock that stands still until it is moved."""

from typing import Any

from broker import Broker
from broker.clock import ManualClock
from broker.core import DurableCore
from broker.scheduler.scheduler import Scheduler

COLUMNS = "id, topic, source, payload, correlation_id, fire_at, status, created_at, fired_at"


def scheduler(broker: Broker) -> Scheduler:
    """Its scheduler."""
    return broker._core.scheduler


def pass_time(broker: Broker, clock: ManualClock, milliseconds: int) -> None:
    """Let time pass, and the scheduler look at the clock."""
    clock.advance(milliseconds)
    scheduler(broker).look()


async def query(broker: Broker, sql: str, *values: Any) -> list[Any]:
    """Ask the journal, after everything that was decided so far."""
    core = broker._core
    assert isinstance(core, DurableCore)
    return await core.journal.execute(lambda connection: connection.execute(sql, values).fetchall())


async def deferred_row(broker: Broker, deferred_id: int) -> dict[str, Any]:
    """A row of `deferred_events` (004)."""
    (row,) = await query(broker, f"SELECT {COLUMNS} FROM deferred_events WHERE id = ?", deferred_id)
    return dict(zip(COLUMNS.split(", "), row, strict=True))

"""The device side of Courier: an outbox that keeps every event until the broker has it.

Plain Python on purpose: aiohttp, apsw and orjson, no compiler, no `_fast`, no uvloop, so that it installs on any Pi.

edge       an outbox and its sender, as one thing     status  how they stand
sync       the same for programs without asyncio
daemon     `courier-edge run`                        config, cli, service, notify: what it is told, and tells
intake     HTTP for other processes on the device    local_socket  JSON lines for them   export  a file for a stick
event      what a program hands in, as the bytes that will be sent
outbox     the outbox: `put` returns when the event is on disk
writer     the thread that owns the file, and shares commits
store      the rows: every statement
storage    the file: lock, settings, migrations      schema   its tables
sender     brings rows to the server, and deletes each on its own acknowledgement
feed       which row goes next                       flights  what is on its way
lines      WebSocket or HTTP                         answers  what a server says
clock      the timeline that rows are scheduled by   backoff  how long to wait
damage     what becomes of a file that the card has damaged
reserve    room on the disk for letting rows go
ids, rate, limits, errors
"""

from edge.backoff import Backoff
from edge.edge import Edge
from edge.errors import (
    DiskFull,
    EdgeError,
    EventInvalid,
    OutboxClosed,
    OutboxDamaged,
    OutboxFailed,
    OutboxFull,
    OutboxInUse,
    OutboxUnavailable,
    OutboxUnusable,
    SettingsInvalid,
)
from edge.outbox import Outbox
from edge.sender import Pace
from edge.status import Status
from edge.store import Bounds, Receipt
from edge.sync import SyncEdge

__all__ = [
    "Backoff",
    "Bounds",
    "DiskFull",
    "Edge",
    "EdgeError",
    "EventInvalid",
    "Outbox",
    "OutboxClosed",
    "OutboxDamaged",
    "OutboxFailed",
    "OutboxFull",
    "OutboxInUse",
    "OutboxUnavailable",
    "OutboxUnusable",
    "Pace",
    "Receipt",
    "SettingsInvalid",
    "Status",
    "SyncEdge",
]

"""A file that an SD card has damaged: set aside, and what can still be read of it put into a new one.

A device that nobody looks after must go on taking events. The damaged file is kept beside the new one, under a name
that says when, for a person to look at; what was salvaged, and that something may be missing, is said in the log.
"""

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import orjson

from edge.errors import EdgeError
from edge.event import Event
from edge.storage import sync_directory
from edge.store import Store

log = logging.getLogger(__name__)

SUFFIXES = ("", "-wal", "-shm")
_COLUMNS = "SELECT event_id, payload_json, lane FROM outbox NOT INDEXED"


def set_aside(path: Path, stamp: int) -> Path:
    """Move a damaged file, with all that belongs to it, out of the way; where it is now."""
    moved = path.with_name(f"{path.name}.damaged-{stamp}")
    for suffix in SUFFIXES:
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.rename(f"{moved}{suffix}")
    sync_directory(path.absolute().parent)
    return moved


def salvage(damaged: Path, store: Store) -> int:
    """Put every row that can still be read into a store; how many. The caller commits."""
    count = 0
    try:
        connection = apsw.Connection(str(damaged))
    except apsw.Error as error:
        log.error("nothing can be read of %s: %s", damaged, error)
        return 0
    with closing(connection):
        for event, lane in _readable(connection):
            try:
                count += not store.put(event, lane).duplicate
            except EdgeError as error:
                log.error("an event of %s could not be taken over: %s", damaged, error)
    return count


def _readable(connection: apsw.Connection) -> Iterator[tuple[Event, str]]:
    """The rows from the front up to the damage, then those from the back."""
    for direction in ("", "DESC"):
        try:
            for row in connection.execute(f"{_COLUMNS} ORDER BY rowid {direction}"):
                if (found := _event(row)) is not None:
                    yield found
            return
        except apsw.Error as error:
            log.error("a part of the damaged outbox cannot be read: %s", error)


def _event(row: tuple[Any, ...]) -> tuple[Event, str] | None:
    """A row that is whole, as far as one can tell; None for any other."""
    match row:
        case (str(event_id), str(payload_json), str(lane)):
            try:
                read = orjson.loads(payload_json)
            except orjson.JSONDecodeError:
                return None
            if isinstance(read, dict) and event_id in (read.get("event_id"), read.get("idempotency_key")):
                return Event(event_id, payload_json.encode()), lane
    return None

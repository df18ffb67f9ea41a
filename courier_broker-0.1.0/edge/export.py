"""What a person takes out of an outbox: a list of what was refused, and all of it as a file for a USB stick.

The file has one event a line, byte for byte as it would be sent, oldest first. `courier import` takes it to the
broker. Nothing is taken away from the outbox, and doing both is harmless: what the broker has already is a duplicate.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from edge.storage import sync_directory

PAGE_ROWS = 500
_PAGE = "SELECT rowid, payload_json FROM outbox WHERE rowid > ? ORDER BY rowid LIMIT ?"
_REJECTED = """SELECT event_id, lane, attempt_count, last_error, created_at, next_attempt_at FROM outbox
WHERE state = 'rejected' ORDER BY rowid LIMIT ?"""


def listed(connection: apsw.Connection, limit: int) -> list[dict[str, Any]]:
    """The events that the broker refused, oldest first."""
    names = ("event_id", "lane", "attempt_count", "last_error", "created_at", "next_attempt_at")
    return [dict(zip(names, row, strict=True)) for row in connection.execute(_REJECTED, (limit,))]


def export(connection: apsw.Connection, file: Path) -> int:
    """Write everything to a new file, which is there whole or not at all; how many events."""
    if file.exists():
        raise FileExistsError(errno.EEXIST, "it exists already", str(file))
    part = file.with_name(f".{file.name}.part")
    count = 0
    try:
        with part.open("wb") as output:
            for line in _events(connection):
                output.write(line)
                count += 1
            output.flush()
            os.fsync(output.fileno())
        part.rename(file)
        sync_directory(file.absolute().parent)
    finally:
        part.unlink(missing_ok=True)
    return count


def _events(connection: apsw.Connection) -> Iterator[bytes]:
    """Page by page, so that the daemon beside this is never kept from tidying its WAL for long."""
    at = 0
    while True:
        page: list[tuple[Any, ...]] = connection.execute(_PAGE, (at, PAGE_ROWS)).fetchall()
        if not page:
            return
        for _, payload_json in page:
            yield payload_json.encode() + b"\n"
        at = page[-1][0]

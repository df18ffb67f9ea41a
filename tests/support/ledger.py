"""The ledger from outside: the file itself, opened read-only."""

from pathlib import Path
from typing import Any

import apsw


def rows(data: Path, columns: str = "source_event_id", where: str = "1") -> list[Any]:
    """Columns of the ledger's rows in their order; a single column comes without its tuple."""
    connection = apsw.Connection(str(data / "courier.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = connection.execute(f"SELECT {columns} FROM ledger WHERE {where} ORDER BY seq").fetchall()
    finally:
        connection.close()
    return [row[0] for row in found] if "," not in columns else found

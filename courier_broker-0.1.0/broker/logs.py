"""What the broker says about itself: for a person on a terminal, as JSON lines for a machine.

Nothing is logged per event.
"""

import copy
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class HumanFormatter(logging.Formatter):
    """`12:34:56 WARNING journal.writer  what happened`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-8s %(name)s  %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Shorten the name by the part that all of them share."""
        record = copy.copy(record)  # others write it too
        record.name = record.name.removeprefix("broker.")
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `ts`, `level`, `logger`, `message`, `exception`, and whatever `extra` brought."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS | line.keys()}
        try:
            return orjson.dumps(line, default=str).decode()
        except TypeError:  # a lone surrogate, as in the name of a file, or an integer past 64 bits
            text = {key: str(value).encode(errors="backslashreplace").decode() for key, value in line.items()}
            return orjson.dumps(text).decode()


def set_up(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send all logging to `stream` (stderr), as `human`, `json`, or `auto`: human on a terminal, else JSON."""
    stream = stream or sys.stderr
    human = style == "human" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter() if human else JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It warns of every subprotocol that a client offers: any stranger could fill the log.
    logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)

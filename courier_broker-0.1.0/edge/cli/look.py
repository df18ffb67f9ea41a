"""`courier-edge status`, `drain` and `export`."""

import argparse
import asyncio
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from edge.cli.daemon import ask, connect
from edge.cli.options import OF_THE_OUTBOX, TEMPORARY, add_settings, settings_of
from edge.clock import SystemClock, Timeline
from edge.config import Settings
from edge.export import export as export_file
from edge.status import Status, totals
from edge.storage import open_reader
from edge.store import Bounds, Store


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    status = commands.add_parser(
        "status",
        help="what the outbox holds, and how its sender fares",
        description="Depth, age of the oldest event, connection, last error and rate: from the daemon if it runs, else "
        "what the file says.",
    )
    status.add_argument("--json", action="store_true", help="print one line of JSON")
    add_settings(status, OF_THE_OUTBOX)
    status.set_defaults(action=show_status)
    drain = commands.add_parser(
        "drain",
        help="wait until the broker has everything",
        description="Wait until the broker has everything but what it refused. Without a daemon, send it from here.",
    )
    drain.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after so long, with exit code 75")
    add_settings(drain)
    drain.set_defaults(action=drain_outbox)
    export = commands.add_parser(
        "export",
        help="copy the outbox to a file, to carry it to the broker",
        description="Write every event to the new FILE, one a line. 'courier import FILE' takes it to the broker. "
        "Nothing leaves the outbox; what arrives both ways is a duplicate, and stored once.",
    )
    export.add_argument("file", type=Path, metavar="FILE")
    add_settings(export, OF_THE_OUTBOX)
    export.set_defaults(action=export_outbox)


def show_status(given: argparse.Namespace) -> int:
    """Print the status."""
    settings = settings_of(given)
    connection = connect(settings)
    status = ask(connection, "status") if connection is not None else _status_of_file(settings).as_dict()
    if given.json:
        sys.stdout.write(orjson.dumps(status).decode() + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(status)))
    return 0


def _status_of_file(settings: Settings) -> Status:
    with closing(open_reader(Path(settings.path))) as connection:
        noted_us = connection.execute("SELECT coalesce(max(changed_at), 0) FROM lanes").get
        store = Store(connection, Timeline(SystemClock(), noted_us), Bounds(), {})
        oldest_us, line = store.oldest_us(), store.line()
        return Status(
            **totals(store.counts()),
            oldest_seconds=None if oldest_us is None else max(0.0, (store.timeline.now_us() - oldest_us) / 1_000_000),
            connected=None,
            url=None,
            in_flight=0,
            failures=line.failures,
            last_error=line.last_error,
            rate_per_second=None,
        )


def _lines(status: dict[str, Any]) -> list[str]:
    oldest = "none" if status["oldest_seconds"] is None else f"{status['oldest_seconds']:.0f} s old"
    connection = {None: "no daemon runs", True: f"connected to {status['url']}"}.get(
        status["connected"], f"not connected to {status['url']}, {status['failures']} failures in a row"
    )
    lines = [
        f"waiting       {status['waiting']} events, {status['bytes']} bytes, {status['in_flight']} on their way",
        f"oldest        {oldest}",
        f"rejected      {status['rejected']}",
        f"acknowledged  {status['acknowledged']}, dropped {status['dropped']}",
        f"connection    {connection}",
        f"last error    {status['last_error'] or 'none'}",
    ]
    if status["rate_per_second"] is not None:
        lines.append(f"rate          {status['rate_per_second']:.1f} events a second over the last minute")
    if status["failure"] is not None:
        lines.append(f"FAILED        {status['failure']}")
    return lines


def drain_outbox(given: argparse.Namespace) -> int:
    """Wait until nothing waits."""
    settings = settings_of(given)
    connection = connect(settings)
    if connection is not None:
        left = ask(connection, "drain", timeout=given.timeout)
    else:
        left = asyncio.run(_drain(settings, given.timeout))
    sys.stdout.write(f"{left['waiting']} events wait, {left['rejected']} are refused\n")
    return TEMPORARY if left["waiting"] else 0


async def _drain(settings: Settings, seconds: float | None) -> dict[str, int]:
    async with settings.edge() as edge:
        try:
            async with asyncio.timeout(seconds):
                await edge.drained()
        except TimeoutError:
            sys.stderr.write(f"courier-edge: not drained: {edge.sender.last_error or 'no broker was reached'}\n")
        return {"waiting": edge.outbox.waiting, "rejected": edge.outbox.rejected}


def export_outbox(given: argparse.Namespace) -> int:
    """Write the file."""
    settings = settings_of(given)
    with closing(open_reader(Path(settings.path))) as connection:
        count = export_file(connection, given.file)
    sys.stdout.write(f"{given.file}: {count} events\n")
    return 0

"""`courier-edge run`: the daemon."""

import argparse
import asyncio
import logging
import sys

from edge import daemon
from edge.cli.options import STORAGE, add_settings, settings_of

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long the loop may make the thread of the outbox wait for the interpreter; Python's own 5 ms is long for a row."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help="run the daemon: take events from programs on this device, and send them",
        description="Take events on a local HTTP port and a Unix socket, keep them in the outbox, and send them. "
        "SIGTERM or Ctrl-C ends it; what is not acknowledged stays in the outbox.",
    )
    add_settings(parser)
    parser.set_defaults(action=run)


def run(given: argparse.Namespace) -> int:
    """Run until it is told to stop."""
    settings = settings_of(given)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    failure = asyncio.run(daemon.run(settings, _say))
    if failure is not None:
        sys.stderr.write(f"courier-edge: the outbox failed, nothing more is taken: {failure}\n")
        return STORAGE
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

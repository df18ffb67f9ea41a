"""`courier-edge service`: the systemd unit."""

import argparse
import sys
from pathlib import Path

from edge.config import DEFAULT_FILE
from edge.service import UNIT_PATH, unit


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    group = commands.add_parser("service", help="the systemd unit", description="Run the daemon under systemd.")
    actions = group.add_subparsers(dest="service", required=True, metavar="ACTION")
    install = actions.add_parser(
        "install", help=f"write {UNIT_PATH}", description=f"Write {UNIT_PATH}, or print it with --dry-run."
    )
    install.add_argument("--dry-run", action="store_true", help="print the unit, and change nothing")
    install.add_argument("--user", default="courier-edge", help="who it runs as [default: courier-edge]")
    install.add_argument("--config", type=Path, default=DEFAULT_FILE, help=f"its settings [default: {DEFAULT_FILE}]")
    install.set_defaults(action=install_service)


def install_service(given: argparse.Namespace) -> int:
    """Write the unit, or print it."""
    text = unit(given.user, given.config)
    if given.dry_run:
        sys.stdout.write(text)
        return 0
    part = UNIT_PATH.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(UNIT_PATH)
    sys.stdout.write(f"{UNIT_PATH} is written. Now: systemctl daemon-reload && systemctl enable --now courier-edge\n")
    return 0

"""`courier-edge`: one file a group of commands.

options   flags, settings, exit codes
daemon    how a command reaches the daemon, or the file when there is none
run       the daemon
send      put events into the outbox
look      status, drain, export
rejected  what the broker refused
service   the systemd unit
"""

import argparse
import sys
from importlib.metadata import PackageNotFoundError, version

from edge.cli import look, rejected, run, send, service
from edge.cli.options import CONFIG, FAILED, REFUSED, STORAGE, TEMPORARY
from edge.errors import EdgeError, OutboxFailed, OutboxUnusable, SettingsInvalid


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    main_parser = argparse.ArgumentParser(
        prog="courier-edge", description="An outbox that keeps the events of this device until the broker has them."
    )
    main_parser.add_argument("--version", action="version", version=f"courier-edge {_version()}")
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for group in (run, send, look, rejected, service):
        group.add_to(commands)
    return main_parser


def _version() -> str:
    for name in ("courier-edge", "courier-broker"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "(not installed)"


def main() -> None:
    """Run a command, and end with its exit code; errors are messages, not tracebacks."""
    given = parser().parse_args()
    try:
        code = given.action(given)
    except SettingsInvalid as error:
        code = _say(error.message, CONFIG)
    except OutboxFailed as error:
        code = _say(error.message, STORAGE)
    except OutboxUnusable as error:
        code = _say(error.message, FAILED)
    except EdgeError as error:
        code = _say(f"{error.code}: {error.message}", TEMPORARY if error.retryable else REFUSED)
    except OSError as error:
        code = _say(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), FAILED)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"courier-edge: {message}\n")
    return code

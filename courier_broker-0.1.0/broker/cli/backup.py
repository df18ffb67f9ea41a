"""`courier backup` and `courier verify`: a copy of the journal, and the proof that it is whole."""

import sys
from pathlib import Path

import click

from broker.cli import exits
from broker.cli.client import fail
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.progress import Progress
from broker.cli.terminal import styled
from broker.cli.units import events, size
from broker.errors import ConfigError, NotFound
from broker.journal.backup import back_up
from broker.journal.backup import verify as verify_file
from broker.journal.connection import FILE_NAME


@click.command(
    short_help="Copy the journal, also while a broker runs.",
    epilog="""\b
Examples:
  courier backup /mnt/usb/courier-2026-02-19.db
  courier backup copy.db --data /var/lib/courier && courier verify copy.db
""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    show_default=True,
    envvar="COURIER_DATA",
    metavar="DIR",
    help="The data directory of the broker, which may be running.",
)
@json_option
def backup(file: Path, data: Path, as_json: bool) -> None:
    """Copy the journal to the new FILE, as it is at this moment. The broker may go on meanwhile."""
    try:
        with Progress("backing up") as progress:
            back_up(data / FILE_NAME, file, progress.update)
    except (ConfigError, NotFound) as error:
        fail(error.message, exits.REFUSED)
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror}", exits.FAILED)
    count = file.stat().st_size
    if for_person(as_json):
        put(f"{file}: {size(count)}")
    else:
        put_json({"file": str(file), "bytes": count})


@click.command(
    short_help="Check that a journal or a backup is whole.",
    epilog="\b\nExample:\n  courier verify data/courier.db\n",
)
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def verify(file: Path, as_json: bool) -> None:
    """Check that FILE, a journal or a backup of one, is whole: its structure, every hash, every sequence.

    Nothing is changed. Every problem is one line on stderr, and then the exit code is 1.
    """
    try:
        with Progress("verifying") as progress:
            verdict = verify_file(file, progress.update)
    except (ConfigError, NotFound) as error:
        fail(error.message, exits.REFUSED)
    for problem in verdict.problems:
        say(f"{file}: {problem}")
    if verdict.problems:
        sys.exit(exits.FAILED)
    if not for_person(as_json):
        found = {"events": verdict.events, "emptied": verdict.emptied, "lastSeq": verdict.last_seq}
        put_json({"file": str(file), "whole": True, **found})
        return
    emptied = f" ({verdict.emptied:,} emptied)" if verdict.emptied else ""
    put(f"{file}: {styled('whole', fg='green')}, {events(verdict.events)}{emptied}, last sequence {verdict.last_seq}")

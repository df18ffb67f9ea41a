"""`courier backup` and `courier verify`: a copy of the journal, and the proof that it is whole."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from broker.cli import exits
from broker.cli.client import fail
from broker.errors import ConfigError, NotFound
from broker.journal.backup import Report, back_up
from broker.journal.backup import verify as verify_file
from broker.journal.connection import FILE_NAME


@contextmanager
def _progress(label: str) -> Iterator[Report]:
    """A progress bar on a terminal; nothing otherwise."""
    with click.progressbar(length=1, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        def report(done: int, total: int) -> None:
            bar.length = max(1, total)
            bar.update(done - bar.pos)

        yield report


@click.command(
    epilog="""\b
Examples:
  courier backup /mnt/usb/courier-2026-02-19.db
  courier backup copy.db --data /var/lib/courier && courier verify copy.db
"""
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
def backup(file: Path, data: Path) -> None:
    """Copy the journal to the new FILE, as it is at this moment. The broker may go on meanwhile."""
    try:
        with _progress("backing up") as report:
            back_up(data / FILE_NAME, file, report)
    except (ConfigError, NotFound) as error:
        fail(error.message, exits.REFUSED)
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror}", exits.FAILED)
    click.echo(f"{file}: {file.stat().st_size} bytes")


@click.command(epilog="\b\nExample:\n  courier verify data/courier.db\n")
@click.argument("file", type=click.Path(path_type=Path))
def verify(file: Path) -> None:
    """Check that FILE, a journal or a backup of one, is whole: its structure, every hash, every sequence.

    Nothing is changed. Every problem is one line on stderr, and then the exit code is 1.
    """
    try:
        with _progress("verifying") as report:
            verdict = verify_file(file, report)
    except (ConfigError, NotFound) as error:
        fail(error.message, exits.REFUSED)
    for problem in verdict.problems:
        click.echo(f"courier: {file}: {problem}", err=True)
    if verdict.problems:
        sys.exit(exits.FAILED)
    click.echo(f"{file}: whole, {verdict.events} events ({verdict.emptied} emptied), last sequence {verdict.last_seq}")

"""`courier replay`: recorded events, from a file or stdin, once more or for the first time."""

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from broker.cli import exits
from broker.cli.client import Client, broker_options, fail, run
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.position import START, LinesBehind, NoPosition, Position, PositionFile, after
from broker.cli.progress import Progress
from broker.cli.publisher import GaveUp, Publisher
from broker.cli.requests import Recorded
from broker.cli.stdin_lines import StdinLine, StdinLines
from broker.cli.terminal import styled
from broker.cli.units import events

_STDIN = "-"


class _Feed(NamedTuple):
    """What is replayed."""

    descriptor: int
    bytes: int | None
    """How long it is; None for what only time will tell."""


@click.command(
    short_help="Replay recorded events from a file or stdin.",
    epilog="""\b
Examples:
  courier replay events.ndjson
  courier replay events.ndjson --position events.position    (again, to go on after a stop)
  zcat events.ndjson.gz | courier replay -
""",
)
@click.argument("file")
@click.option(
    "--position",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep there how far it has come, and go on from there when it is called again.",
)
@json_option
@broker_options
def replay(file: str, position: Path | None, as_json: bool, url: str, token: str | None) -> None:
    """Replay the events of FILE, or of stdin if FILE is "-": one a line, an envelope or a request of /v1/enqueue.

    Each goes to the stream that its 'to' names, under its own id. So what is there already is a duplicate, and is not
    stored again: to replay a file twice adds nothing, in whatever order its lines are.

    A bad line is reported with its number, and the rest go in; the exit code is then 65.
    """
    kept = None if position is None else PositionFile(position)
    try:
        start = START if kept is None else kept.read()
        with _opened(file) as feed:
            run(_replay(Client(url, token, "streams:STREAM:enqueue"), feed, file, kept, start, for_person(as_json)))
    except NoPosition as problem:
        fail(str(problem), exits.FAILED)


@contextmanager
def _opened(file: str) -> Iterator[_Feed]:
    if file == _STDIN:
        yield _Feed(0, None)
        return
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError as error:
        raise click.UsageError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise click.UsageError(f"{file}: is a directory")
        yield _Feed(descriptor, found.st_size if stat.S_ISREG(found.st_mode) else None)
    finally:
        os.close(descriptor)


async def _replay(
    client: Client, feed: _Feed, name: str, kept: PositionFile | None, start: Position, person: bool
) -> int:
    lines = LinesBehind(StdinLines(feed.descriptor), start, name)
    async with client:
        with Progress("replaying") as progress:
            publisher = Publisher(client, Recorded(), progress, prints=False)

            def answered(line: StdinLine) -> None:
                if kept is not None and line.is_whole:
                    kept.write(after(line))
                share = None if not feed.bytes else min(1.0, line.end / feed.bytes)
                progress.update(line.number - start.lines, None, share)

            try:
                await publisher.run(lines, answered)
            except GaveUp as end:
                progress.say(str(end))
                say(_how_to_go_on(publisher, kept))
                return end.exit_code
            except asyncio.CancelledError:  # Ctrl-C
                progress.say(_how_to_go_on(publisher, kept))
                raise
    counts = {"stored": publisher.stored, "duplicates": publisher.duplicates, "refused": publisher.refused}
    if not person:
        put_json({"file": name, "skipped": start.lines, **counts, "conflicts": publisher.conflicts})
    else:
        put(
            f"{styled('replayed', fg='green')} {name}: {events(publisher.stored)} stored, "
            f"{publisher.duplicates:,} were there already, {publisher.refused:,} refused"
        )
    return exits.REFUSED if publisher.refused else 0


def _how_to_go_on(publisher: Publisher, kept: PositionFile | None) -> str:
    before = f"the lines before {publisher.first_unanswered} are stored or reported"
    if kept is None:
        return f"{before}; the same call again does the rest, and adds nothing twice"
    return f"{before}; the same call again goes on from {kept.path}"

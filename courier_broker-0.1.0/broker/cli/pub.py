"""`courier pub`: put events on a stream."""

import asyncio
import os
from typing import Any

import click
import msgspec

from broker.cli import exits
from broker.cli.client import Client, broker_options, expect, fail, run
from broker.cli.names import STREAM
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.progress import Progress
from broker.cli.publisher import GaveUp, Publisher
from broker.cli.requests import NotAnEvent, Template
from broker.cli.stdin_lines import StdinLines
from broker.cli.terminal import shown, styled
from broker.cli.units import events
from broker.contracts.courier import Envelope


def _checked_ts(_context: click.Context, _option: click.Parameter, ts: str | None) -> str | None:
    if ts is not None:
        try:
            msgspec.convert(ts, Envelope.__annotations__["ts"])
        except msgspec.ValidationError:
            raise click.BadParameter(f"{ts!r} is not a time like 2026-02-19T18:30:00Z") from None
    return ts


@click.command(
    short_help="Put events on a stream.",
    epilog="""\b
Examples:
  courier pub agents/Jen/inbox '{"title": "hello"}'
  courier pub sensors/door '{"open": true}' --type door.changed --id door-17
  cat readings.ndjson | courier pub sensors/readings -
  courier pub orders --id-prefix import-7- --ts 2026-02-19T18:30:00Z < orders.ndjson
""",
)
@click.argument("stream", type=STREAM)
@click.argument("json", required=False, default="-")
@click.option("--type", "event_type", default="message", show_default=True, help="The type of the events.")
@click.option("--id", "event_id", help="The id, which makes a repetition harmless. [default: a new one]")
@click.option("--id-prefix", metavar="TEXT", help="With stdin: each id is this and the number of the line.")
@click.option(
    "--ts",
    callback=_checked_ts,
    metavar="TIME",
    help="When the events were made. It is part of their bytes: a repetition with the same id and another time is a "
    "duplicate, and is told payload_conflict. [default: now]",
)
@click.option("--from", "sender", help="Who sends.")
@click.option("--envelope", "are_envelopes", is_flag=True, help="JSON, or each line, is a whole envelope already.")
@json_option
@broker_options
def pub(
    stream: str,
    json: str,
    event_id: str | None,
    are_envelopes: bool,
    as_json: bool,
    url: str,
    token: str | None,
    **common: Any,
) -> None:
    """Put events on STREAM; each is answered when it is on disk.

    JSON is the payload of one event. Without it, or with "-", every line of stdin is the payload of one.

    A bad line is reported with its number, and the rest go in; the exit code is then 65. If the broker goes
    away meanwhile, the line from which to start again is reported. Lines that are sent twice are stored once if
    their ids are yours: with --envelope, or with --id-prefix and --ts.
    """
    from_stdin = json == "-"
    if event_id is not None and from_stdin:
        raise click.UsageError("--id names one event; with stdin, every event needs an id of its own: use --id-prefix")
    if common["id_prefix"] is not None and not from_stdin:
        raise click.UsageError("--id-prefix is for the lines of stdin; one event is named by --id")
    if are_envelopes and (event_id or any(common[name] for name in ("id_prefix", "ts", "sender"))):
        raise click.UsageError("an envelope has its own id, ts and from; leave --id, --id-prefix, --ts and --from out")
    template = Template(stream, are_envelopes=are_envelopes, **common)
    client_options = (url, token, f"streams:{stream}:enqueue")
    person = for_person(as_json)
    if from_stdin:
        run(_publish_lines(client_options, template, person))
        return
    try:
        request = template.request(os.fsencode(json), event_id=event_id)
    except NotAnEvent as problem:
        fail(f"the {'envelope' if are_envelopes else 'payload'} is {problem}", exits.USAGE)
    run(_publish_one(client_options, request, person))


async def _publish_one(client_options: tuple[str, str | None, str], request: bytes, person: bool) -> None:
    async with Client(*client_options) as client:
        answer = await client.post("v1/enqueue", request)
    expect(answer, "id", "seq", "duplicate")
    if not person:
        put_json(answer)
        return
    name, seq = shown(answer["id"]), answer["seq"]
    if not answer["duplicate"]:
        put(f"{styled('stored', fg='green')} {name} as {seq}")
        return
    put(f"{styled('duplicate', fg='yellow')} {name} is there already as {seq}")
    if answer.get("payload_conflict"):
        say("its bytes differ from those of the first (ts is part of them; see --ts), which stays as it is")


async def _publish_lines(client_options: tuple[str, str | None, str], template: Template, person: bool) -> int:
    async with Client(*client_options) as client:
        with Progress("publishing") as progress:
            publisher = Publisher(client, template, progress, prints=not person)
            try:
                await publisher.run(StdinLines())
            except GaveUp as end:
                progress.say(str(end))
                say(_where_to_start_again(publisher))
                return end.exit_code
            except asyncio.CancelledError:  # Ctrl-C
                progress.say(_where_to_start_again(publisher))
                raise
    if person:
        put(_summary(publisher))
    return exits.REFUSED if publisher.refused else 0


def _where_to_start_again(publisher: Publisher) -> str:
    line = publisher.first_unanswered
    return f"the lines before {line} are stored or reported; start again from line {line}: tail -n +{line}"


def _summary(publisher: Publisher) -> str:
    parts = [f"{styled('stored', fg='green')} {events(publisher.stored)}"]
    if publisher.duplicates:
        conflicts = f" ({publisher.conflicts:,} with other bytes)" if publisher.conflicts else ""
        parts.append(f"{publisher.duplicates:,} duplicate{'' if publisher.duplicates == 1 else 's'}{conflicts}")
    if publisher.refused:
        parts.append(f"{publisher.refused:,} refused")
    return ", ".join(parts)

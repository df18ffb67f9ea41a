"""`courier schedule`: events that are put off, and events that recur."""

import os
import re
import sys
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import click
import orjson

from broker.cli import exits
from broker.cli.client import Client, broker_options, expect, fail, run
from broker.cli.groups import Group
from broker.cli.names import PATTERN, STREAM
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.requests import NotAnEvent, Template, exact
from broker.cli.table import Column, table
from broker.cli.terminal import shown, size, styled
from broker.limits import PAGE_LIMIT_MAX

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)")
_COLUMNS = (
    Column("id"), Column("due", is_number=False), Column("stream", is_number=False, may_shrink=True),
    Column("event", is_number=False, may_shrink=True), Column("attempts"),
    Column("error", is_number=False, may_shrink=True),
)  # fmt: skip
_RECURRING = (
    Column("name", is_number=False, may_shrink=True), Column("next", is_number=False), Column("last", is_number=False),
    Column("stream", is_number=False, may_shrink=True), Column("when", is_number=False, may_shrink=True),
    Column("missed", is_number=False), Column("error", is_number=False, may_shrink=True),
)  # fmt: skip


def _duration(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """So many milliseconds."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration like 500ms, 30s, 5m, 2h or 1d")
    return round(float(match[1]) * _UNITS[match[2]])


def _moment(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """The text as it stands, if it is a moment with its time zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time like 2026-02-19T18:30:00Z") from None
    if moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone; write {text}Z for UTC, or {text}+01:00")
    return text


@click.group(
    cls=Group,
    short_help="Publish events later, or again and again.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  courier schedule add topics/reminder.due '{"text": "Drink water"}' --in 20m
  courier schedule add jobs/report '{"of": "May"}' --at 2026-06-01T06:00:00+02:00 --id report-may
  courier schedule add jobs/backup '{}' --cron '30 3 * * *' --tz Europe/Berlin --id nightly-backup
  courier schedule list
  courier schedule cancel 17
  courier schedule cancel nightly-backup
""",
)
def schedule() -> None:
    """Publish events later, or again and again.

    What is scheduled is on disk, and is published once when its time comes, also after a restart or a crash. What
    became due while the broker was down is published when it starts.
    """


@schedule.command(
    epilog="""\b
Examples:
  courier schedule add topics/reminder.due '{"text": "Drink water"}' --in 20m
  courier schedule add agents/Jen/inbox '{"title": "stand-up"}' --at 2026-02-20T09:00:00Z --id stand-up-20
  courier schedule add metrics/poll '{}' --every 30s --id poll --missed skip
  courier schedule add agents/Jen/inbox '{}' --cron '0 9 * * MON-FRI' --tz Europe/Berlin --id stand-up
""",
)
@click.argument("stream", type=STREAM)
@click.argument("json")
@click.option("--in", "in_ms", callback=_duration, metavar="DURATION", help="After this time: 500ms, 30s, 5m, 2h, 1d.")
@click.option("--at", callback=_moment, metavar="TIME", help="At this moment, with its zone: 2026-02-19T18:30:00Z.")
@click.option("--every", "every_ms", callback=_duration, metavar="DURATION", help="Again and again, so far apart.")
@click.option("--cron", metavar="EXPRESSION", help="Again and again: minute, hour, day, month, day of the week.")
@click.option("--tz", metavar="ZONE", help="The time zone of --cron, such as Europe/Berlin. [default: UTC]")
@click.option(
    "--missed",
    type=click.Choice(["skip", "once", "all"]),
    help="What becomes of runs that are more than a minute late, because the broker was down: none is made up for, "
    "one is for all, or each is, up to 1,000. [default: once]",
)
@click.option(
    "--id", "event_id", help="Its id, with which it is scheduled once; of what recurs, its name. [default: a new one]"
)
@click.option("--type", "event_type", default="message", show_default=True, help="The type of the events.")
@click.option("--from", "sender", help="Who sends.")
@json_option
@broker_options
def add(stream: str, json: str, as_json: bool, url: str, token: str | None, **options: Any) -> None:
    """Publish JSON on STREAM later; answered when that is on disk.

    Say when by one of --in, --at, --every and --cron. A topic of the event bus is the stream topics/TOPIC.
    """
    given = [name for name in ("in_ms", "at", "every_ms", "cron") if options[name] is not None]
    if len(given) != 1:
        raise click.UsageError("say when, by one of --in, --at, --every and --cron")
    recurs = given[0] in ("every_ms", "cron")
    if not recurs and options["missed"]:
        raise click.UsageError("--missed goes with --every and --cron")
    if options["tz"] and given[0] != "cron":
        raise click.UsageError("--tz goes with --cron; --at has its time zone in it")
    if recurs and not options["event_id"]:
        raise click.UsageError("what recurs needs a name, by which it can be cancelled: --id NAME")
    client = Client(url, token, f"streams:{stream}:enqueue")
    try:
        if recurs:
            run(_put(client, options["event_id"], _recurring(stream, json, options), person=for_person(as_json)))
        else:
            run(_add(client, _deferred(stream, json, options), person=for_person(as_json)))
    except NotAnEvent as problem:
        fail(f"the payload is {problem}", exits.USAGE)


def _deferred(stream: str, json: str, options: dict[str, Any]) -> bytes:
    template = Template(stream, options["event_type"], options["sender"], None, None, are_envelopes=False)
    request = template.request(os.fsencode(json), event_id=options["event_id"])
    when = {"delayMs": options["in_ms"]} if options["at"] is None else {"at": options["at"]}
    return request[:-1] + b"," + orjson.dumps(when)[1:]


def _recurring(stream: str, json: str, options: dict[str, Any]) -> bytes:
    asked = {"to": stream, "type": options["event_type"], "payload": exact(os.fsencode(json))}
    more = {"from": "sender", "everyMs": "every_ms", "cron": "cron", "tz": "tz", "missed": "missed"}
    return orjson.dumps(asked | {key: options[name] for key, name in more.items() if options[name] is not None})


async def _add(client: Client, body: bytes, *, person: bool) -> None:
    async with client:
        answer = await client.post("v1/schedule", body)
    expect(answer, "id", "status", "fireAt")
    if not person:
        put_json(answer)
        return
    word = styled("duplicate", fg="yellow") if answer["duplicate"] else styled("scheduled", fg="green")
    state = f"is {answer['status']} already, for" if answer["duplicate"] else "for"
    put(f"{word} {answer['id']} {state} {answer['fireAt']}")
    if answer.get("payloadConflict"):
        say("its bytes differ from those of the first (the time it was made is part of them), which stays as it is")


async def _put(client: Client, name: str, body: bytes, *, person: bool) -> None:
    async with client:
        answer = await client.put(f"v1/recurring/{quote(name, safe='')}", body)
    expect(answer, "name", "nextAt")
    put(f"{styled('recurs', fg='green')} {answer['name']}, next {answer['nextAt']}") if person else put_json(answer)


@schedule.command(
    "list",
    epilog="""\b
Examples:
  courier schedule list --stream 'topics/**'
  courier schedule list --json | jq -r 'select(.error) | .id'
  courier schedule list --recurring
""",
)
@click.option("--stream", type=PATTERN, metavar="PATTERN", help="Only for this stream or pattern.")
@click.option("--recurring", is_flag=True, help="What recurs, by its name, and not the next run of each.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="At most so many. [default: all]")
@json_option
@broker_options
def list_waiting(
    stream: str | None, recurring: bool, count: int | None, as_json: bool, url: str, token: str | None
) -> None:
    """List what is scheduled, the next one first; 'error' says why something that is due could not be published yet."""
    if recurring and (stream or count):
        raise click.UsageError("--recurring lists all; leave --stream and --count out")
    client = Client(url, token, f"streams:{stream or '*'}:enqueue")
    person = for_person(as_json)
    run(_list_recurring(client, person=person) if recurring else _list(client, stream, count, person=person))


async def _list(client: Client, stream: str | None, count: int | None, *, person: bool) -> None:
    """Page by page. A table is laid out anew for each page, so that any number can be shown."""
    wanted = {} if stream is None else {"stream": stream}
    left, after, is_first = count, None, True
    async with client:
        while left != 0:
            limit = PAGE_LIMIT_MAX if left is None else min(PAGE_LIMIT_MAX, left)
            query = {**wanted, "limit": str(limit)} | ({} if after is None else {"after": after})
            page = await client.get("v1/schedule", query)
            expect(page, "deferred", "next")
            found = page["deferred"]
            if person and found:
                _show(_COLUMNS, [_row(each) for each in found], with_head=is_first)
                is_first = False
            elif not person:
                for each in found:
                    put_json(each)
            left = None if left is None else left - len(found)
            after = page["next"]
            if after is None:
                break
    if person and is_first:
        say("nothing is scheduled; 'courier schedule add' does that")


def _row(each: dict[str, Any]) -> list[str]:
    due = each["retryAt"] or each["fireAt"]
    event_id, error = shown(each["eventId"] or "-"), shown(each["error"] or "")
    return [str(each["id"]), due, each["stream"], event_id, str(each["attempts"]), error]


async def _list_recurring(client: Client, *, person: bool) -> None:
    async with client:
        answer = await client.get("v1/recurring")
    expect(answer, "recurring")
    found = answer["recurring"]
    if not person:
        for each in found:
            put_json(each)
    elif not found:
        say("nothing recurs; 'courier schedule add … --every' or '--cron' does that")
    else:
        _show(_RECURRING, [_recurring_row(each) for each in found], with_head=True)


def _recurring_row(each: dict[str, Any]) -> list[str]:
    when = f"every {each['everyMs']:,} ms" if each["cron"] is None else f"{each['cron']} {each['tz']}"
    next_at, last_at = each["nextAt"] or "-", each["lastAt"] or "-"
    return [each["name"], next_at, last_at, each["stream"], shown(when), each["missed"], shown(each["error"] or "")]


def _show(columns: tuple[Column, ...], rows: list[list[str]], *, with_head: bool) -> None:
    head, *lines = table(columns, rows, size(sys.stdout)[0])
    if with_head:
        put(styled(head, bold=True))
    for line in lines:
        put(line)


@schedule.command(
    epilog="""\b
Examples:
  courier schedule cancel 17
  courier schedule cancel nightly-backup
""",
)
@click.argument("what")
@json_option
@broker_options
def cancel(what: str, as_json: bool, url: str, token: str | None) -> None:
    """Let WHAT never happen: an id of 'courier schedule list', or the name of what recurs.

    The exit code is 65 when it is too late, because it has been published.
    """
    client = Client(url, token, "streams:STREAM:enqueue")
    run(_cancel(client, what, person=for_person(as_json)))


async def _cancel(client: Client, what: str, *, person: bool) -> int:
    is_id = what.isascii() and what.isdigit()
    async with client:
        answer = await client.delete(f"v1/{'schedule' if is_id else 'recurring'}/{quote(what, safe='')}", {})
    expect(answer, "cancelled" if is_id else "deleted")
    is_gone = not is_id or answer["status"] == "cancelled"
    if not person:
        put_json(answer)
    elif is_gone:
        put(f"{styled('cancelled', fg='green')} {shown(what)}")
    else:
        say(f"{what} is {answer['status']} already")
    return 0 if is_gone else exits.REFUSED

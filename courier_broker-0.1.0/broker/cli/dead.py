"""`courier dead`: look at dead letters, bring them back, or let them go."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec
import orjson

from broker.cli.bulk import DONE, bulk
from broker.cli.client import Client, broker_options, expect, run
from broker.cli.events import one_line
from broker.cli.groups import Group
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.table import Column, table
from broker.cli.terminal import shown, size, styled
from broker.limits import PAGE_LIMIT_MAX, REPLAY_PER_SECOND_MAX, REPLAY_PER_SECOND_MIN, SEQ_MAX

F = TypeVar("F", bound=Callable[..., Any])

SEQ = click.IntRange(1, SEQ_MAX)
_COLUMNS = (
    Column("seq"), Column("stream", is_number=False, may_shrink=True), Column("type", is_number=False, may_shrink=True),
    Column("id", is_number=False, may_shrink=True), Column("attempts"), Column("dead since", is_number=False),
    Column("reason", is_number=False, may_shrink=True),
)  # fmt: skip


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  courier dead list --stream 'agents/*'
  courier dead show 17
  courier dead replay 17
  courier dead replay --stream 'agents/*' --rate 100 --yes
  courier dead discard --type test.event --because 'left over from a test'
  courier dead list --group billing
""",
)
def dead() -> None:
    """Look at dead letters, bring them back, or let them go.

    A dead letter is an event that was delivered streams.maxDeliveries times and never acknowledged. Those of a consumer
    group are its own: with --group, every command is about them, and without it about those of the streams themselves.
    """


def _filters(command: F) -> F:
    """Add the filters, all of which must match."""
    stream = click.option("--stream", metavar="GLOB", help="Only of this stream; * stands for anything, / included.")
    kind = click.option("--type", "event_type", metavar="TYPE", help="Only of this type.")
    reason = click.option("--reason", metavar="TEXT", help="Only with this text in the reason.")
    return stream(kind(reason(_group_option(command))))


def _group_option(command: F) -> F:
    return click.option("--group", metavar="NAME", help="Those of this consumer group, not of the streams themselves.")(
        command
    )


def _of(group: str | None) -> dict[str, str]:
    return {} if group is None else {"group": group}


def _wanted(stream: str | None, event_type: str | None, reason: str | None) -> dict[str, str]:
    given = {"stream": stream, "type": event_type, "reason": reason}
    return {name: text for name, text in given.items() if text is not None}


@dead.command("list", epilog="\b\nExample:\n  courier dead list --stream 'agents/*' --json | jq .seq\n")
@_filters
@click.option("-n", "--count", type=click.IntRange(min=1), help="At most so many. [default: all]")
@json_option
@broker_options
def list_letters(
    stream: str | None,
    event_type: str | None,
    reason: str | None,
    group: str | None,
    count: int | None,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """List dead letters, the oldest first."""
    client = Client(url, token, f"streams:{stream or '*'}:subscribe")
    wanted = _wanted(stream, event_type, reason) | _of(group)
    run(_list(client, wanted, count, person=for_person(as_json)))


async def _list(client: Client, wanted: dict[str, str], count: int | None, *, person: bool) -> None:
    """Page by page. A table is laid out anew for each page, so that any number of letters can be shown."""
    left, after, is_first = count, 0, True
    async with client:
        while left != 0:
            limit = PAGE_LIMIT_MAX if left is None else min(PAGE_LIMIT_MAX, left)
            page = await client.get("v1/dead-letters", {**wanted, "after": str(after), "limit": str(limit)})
            expect(page, "deadLetters", "next")
            letters = page["deadLetters"]
            if person:
                _show_table(letters, with_head=is_first)
                is_first = is_first and not letters
            else:
                for letter in letters:
                    put_json(letter)
            left = None if left is None else left - len(letters)
            if page["next"] is None:
                break
            after = page["next"]
    if person and is_first:
        say("there are no dead letters" + (" that match" if wanted else ""))


def _show_table(letters: list[dict[str, Any]], *, with_head: bool) -> None:
    if not letters:
        return
    rows = [
        [
            str(each["seq"]),
            shown(each["stream"]),
            shown(each["type"]),
            shown(each["id"]),
            str(each["attempts"]),
            each["deadAt"],
            shown(each["reason"]),
        ]
        for each in letters
    ]
    head, *lines = table(_COLUMNS, rows, size(sys.stdout)[0])
    if with_head:
        put(styled(head, bold=True))
    for line in lines:
        put(line)


@dead.command(epilog="\b\nExample:\n  courier dead show 17 --json | jq .envelope.payload\n")
@click.argument("seq", type=SEQ)
@_group_option
@json_option
@broker_options
def show(seq: int, group: str | None, as_json: bool, url: str, token: str | None) -> None:
    """Show the dead letter with the sequence SEQ, and its envelope as it came."""
    run(_show(Client(url, token, "streams:*:subscribe"), seq, group, person=for_person(as_json)))


class _Whole(msgspec.Struct):
    envelope: msgspec.Raw


async def _show(client: Client, seq: int, group: str | None, *, person: bool) -> None:
    async with client:
        content = await client.get_bytes(f"v1/dead-letters/{seq}", _of(group))
    letter = orjson.loads(content)
    expect(letter, "seq", "reason")
    if not person:
        put(one_line(content))
        return
    labels = {"stream": "stream", "type": "type", "id": "id", "source": "source", "attempts": "attempts"}
    labels |= {"receivedAt": "received", "firstAttemptAt": "first tried", "deadAt": "dead since", "reason": "reason"}
    put(f"{'sequence:':<14}{seq}")
    for key, label in labels.items():
        put(f"{label + ':':<14}{shown(str(letter[key] if letter[key] is not None else '-'))}")
    envelope = bytes(msgspec.json.decode(content, type=_Whole).envelope)
    text = "its stored bytes are damaged" if letter["corrupt"] else shown(one_line(envelope).decode())
    put(f"{'envelope:':<14}{text}")


def _acting(command: F) -> F:
    """Add what replaying and discarding have in common."""
    every = click.option("--all", "every", is_flag=True, help="All dead letters.")
    dry = click.option("--dry-run", is_flag=True, help="Only say how many there are.")
    yes = click.option("-y", "--yes", is_flag=True, help="With filters or --all: do not ask first.")
    seqs = click.argument("seqs", type=SEQ, nargs=-1, metavar="[SEQ]...")
    return seqs(_filters(every(dry(yes(command)))))


def _check_selection(seqs: tuple[int, ...], wanted: dict[str, str], every: bool) -> None:
    ways = sum((bool(seqs), bool(wanted), every))
    if ways == 0:
        raise click.UsageError("say which ones: their sequences, a filter (--stream, --type, --reason) or --all")
    if ways > 1:
        raise click.UsageError("give sequences, or filters, or --all; not several of them")


@dead.command(
    epilog="""\b
Examples:
  courier dead replay 17 18
  courier dead replay --stream 'agents/*' --dry-run
  courier dead replay --all --rate 100 --yes
"""
)
@_acting
@click.option(
    "--rate",
    type=click.FloatRange(REPLAY_PER_SECOND_MIN, REPLAY_PER_SECOND_MAX),
    help="With filters or --all: at most so many a second.",
)
@json_option
@broker_options
def replay(
    seqs: tuple[int, ...],
    stream: str | None,
    event_type: str | None,
    reason: str | None,
    group: str | None,
    every: bool,
    dry_run: bool,
    yes: bool,
    rate: float | None,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Send dead letters to their streams again: those with the sequences SEQ, those that match, or --all.

    Each becomes a new event with the same id and the same bytes, at the tail of its stream. One of a group goes to the
    tail of that group's copy, and to nobody else. What was replayed stays so if this is interrupted; the same call
    again does the rest.
    """
    wanted = _wanted(stream, event_type, reason)
    _check_selection(seqs, wanted, every)
    if rate is not None and seqs:
        raise click.UsageError("--rate is for filters and --all")
    body: dict[str, Any] = {"filter": wanted | _of(group)} | ({} if rate is None else {"perSecond": rate})
    client, person = Client(url, token, "admin:*"), for_person(as_json)
    if seqs:
        run(_one_by_one(client, "replay", seqs, b"", group, dry_run=dry_run, person=person))
    else:
        bulk(client, "replay", body, dry_run=dry_run, ask=not yes, person=person)


@dead.command(
    epilog="""\b
Examples:
  courier dead discard 17 --because 'the order was cancelled'
  courier dead discard --type test.event --because 'left over from a test' --dry-run
"""
)
@_acting
@click.option("--because", required=True, metavar="TEXT", help="Why. It is kept with each event.")
@json_option
@broker_options
def discard(
    seqs: tuple[int, ...],
    stream: str | None,
    event_type: str | None,
    reason: str | None,
    group: str | None,
    every: bool,
    dry_run: bool,
    yes: bool,
    because: str,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Let dead letters go: those with the sequences SEQ, those that match, or --all.

    They count as processed from then on, and cannot be replayed any more. Their receipts say why.
    """
    wanted = _wanted(stream, event_type, reason)
    _check_selection(seqs, wanted, every)
    client, person = Client(url, token, "admin:*"), for_person(as_json)
    if seqs:
        body = orjson.dumps({"reason": because})
        run(_one_by_one(client, "discard", seqs, body, group, dry_run=dry_run, person=person))
    else:
        asked = {"filter": wanted | _of(group), "reason": because}
        bulk(client, "discard", asked, dry_run=dry_run, ask=not yes, person=person)


async def _one_by_one(
    client: Client, action: str, seqs: tuple[int, ...], body: bytes, group: str | None, *, dry_run: bool, person: bool
) -> None:
    """Each by its sequence; the first that is not a dead letter ends it."""
    async with client:
        for seq in seqs:
            if dry_run:
                answer = await client.get(f"v1/dead-letters/{seq}", _of(group))
                expect(answer, "seq")
                put(f"would {action} {seq}") if person else put_json({"seq": seq, "would": action})
                continue
            answer = await client.post(f"v1/dead-letters/{seq}/{action}", body, params=_of(group))
            expect(answer, "seq")
            if not person:
                put_json(answer)
            elif action == "replay" and group is None:
                put(f"{styled('replayed', fg='green')} {seq} as {answer['redrivenAs']}")
            else:
                put(f"{styled(DONE[action], fg='green')} {seq}")

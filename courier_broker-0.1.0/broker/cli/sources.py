"""`courier sources`: what the broker pulls from, and how that goes."""

import sys
from typing import Any

import click

from broker.cli.client import Client, broker_options, expect, run
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.table import Column, table
from broker.cli.terminal import shown, size, styled

_COLUMNS = (
    Column("source", is_number=False, may_shrink=True), Column("kind", is_number=False),
    Column("state", is_number=False), Column("events"), Column("errors"),
    Column("cursor", is_number=False, may_shrink=True), Column("next attempt", is_number=False),
    Column("last error", is_number=False, may_shrink=True),
)  # fmt: skip


@click.command(
    short_help="List the sources that are pulled from.",
    epilog="""\b
Examples:
  courier sources
  courier sources --json | jq -r 'select(.up | not) | "\\(.name): \\(.lastError)"'
""",
)
@json_option
@broker_options
def sources(as_json: bool, url: str, token: str | None) -> None:
    """List the sources of the configuration: what each does now, what it brought, what went wrong, and when.

    A source that is 'paused' waits for room in the journal, or for a quota; one that is 'retrying' for its server.
    """
    run(_list(Client(url, token, "admin:*"), person=for_person(as_json)))


async def _list(client: Client, *, person: bool) -> None:
    async with client:
        answer = await client.get("v1/sources")
    expect(answer, "sources")
    found = answer["sources"]
    if not person:
        for each in found:
            put_json(each)
    elif not found:
        say("there are no sources; they are configured under sources.rest and sources.websocket")
    else:
        head, *lines = table(_COLUMNS, [_row(each) for each in found], size(sys.stdout)[0])
        put(styled(head, bold=True))
        for line in lines:
            put(line)


def _row(source: dict[str, Any]) -> list[str]:
    return [
        source["name"],
        source["kind"],
        source["state"],
        f"{source['events']:,}",
        f"{source['errors']:,}",
        shown(source["cursor"] or "-"),
        source["nextAttemptAt"] or "-",
        shown(source["lastError"] or "-"),
    ]

"""`courier groups`: the consumer groups, what each has before it, and the end of one."""

import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import click

from broker.cli.client import Client, broker_options, expect, run
from broker.cli.groups import Group
from broker.cli.names import PATTERN, STREAM
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.table import Column, table
from broker.cli.terminal import shown, size, styled

_REGISTRATIONS = (
    Column("group", is_number=False, may_shrink=True),
    Column("stream", is_number=False, may_shrink=True),
    Column("since"),
)
_COPIES = (
    Column("group", is_number=False, may_shrink=True), Column("position"), Column("depth"), Column("in flight"),
    Column("subs"), Column("dead"),
)  # fmt: skip


class _ListedByDefault(Group):
    """`courier groups [STREAM]` is `courier groups list [STREAM]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the command first, where it was left out."""
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["list", *args])


@click.group(
    cls=_ListedByDefault,
    short_help="List the consumer groups, or delete one.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  courier groups
  courier groups agents/Jen/inbox
  courier groups delete billing --stream 'agents/**'
""",
)
def groups() -> None:
    """List the consumer groups, or delete one.

    A group has a copy of a stream, or of each stream of a pattern, of its own; 'courier sub STREAM --group NAME' makes
    it. 'courier groups [STREAM]' is short for 'courier groups list [STREAM]'.
    """


@groups.command(
    "list",
    epilog="""\b
Examples:
  courier groups list
  courier groups list agents/Jen/inbox --json | jq -r 'select(.depth > 1000) | .group'
""",
)
@click.argument("stream", type=STREAM, required=False)
@json_option
@broker_options
def list_groups(stream: str | None, as_json: bool, url: str, token: str | None) -> None:
    """List the groups with the stream or pattern that each was made for; of STREAM, how far each has come.

    'since' is the sequence behind which a group began, 'position' the one up to which everything is settled for it.
    """
    client = Client(url, token, f"streams:{stream or '*'}:subscribe")
    run(_list(client, stream, person=for_person(as_json)))


async def _list(client: Client, stream: str | None, *, person: bool) -> None:
    async with client:
        path = "v1/groups" if stream is None else f"v1/streams/{quote(stream, safe='')}/groups"
        answer = await client.get(path)
    expect(answer, "groups")
    found = answer["groups"]
    if not person:
        for each in found:
            put_json(each)
    elif not found:
        say("there are no groups" + (f" of {stream}" if stream else "; 'courier sub STREAM --group NAME' makes one"))
    elif stream is None:
        _show_table(_REGISTRATIONS, [[shown(each["group"]), each["stream"], str(each["since"])] for each in found])
    else:
        figures = ("position", "depth", "inflight", "subscribers", "dead")
        _show_table(_COPIES, [[shown(each["group"]), *(f"{each[name]:,}" for name in figures)] for each in found])


def _show_table(columns: Sequence[Column], rows: list[list[str]]) -> None:
    head, *lines = table(columns, rows, size(sys.stdout)[0])
    put(styled(head, bold=True))
    for line in lines:
        put(line)


@groups.command(epilog="\b\nExample:\n  courier groups delete billing --stream 'agents/**'\n")
@click.argument("group")
@click.option(
    "--stream", type=PATTERN, metavar="PATTERN", required=True, help="What it was made for, as the list shows it."
)
@json_option
@broker_options
def delete(group: str, stream: str, as_json: bool, url: str, token: str | None) -> None:
    """Delete GROUP: its copies of the streams, how far it has come, and its dead letters.

    The events stay in their streams, and with the other groups. A group with subscribers is not deleted.
    """
    run(_delete(Client(url, token, "admin:*"), group, stream, person=for_person(as_json)))


async def _delete(client: Client, group: str, stream: str, *, person: bool) -> None:
    async with client:
        answer: dict[str, Any] = await client.delete(f"v1/groups/{quote(group, safe='')}", {"stream": stream})
    expect(answer, "deleted")
    put(f"{styled('deleted', fg='green')} {shown(group)} of {stream}") if person else put_json(answer)

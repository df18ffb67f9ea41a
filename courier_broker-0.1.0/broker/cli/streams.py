"""`courier streams`: every stream in figures, once."""

import sys

import click

from broker.cli.client import Client, broker_options, run
from broker.cli.figures import SORTS, STREAMS_SHOWN_MAX, figures_table, read_figures
from broker.cli.names import PATTERN
from broker.cli.output import for_person, json_option, put, put_json, say
from broker.cli.terminal import size, styled


@click.command(
    short_help="List the streams, in figures.",
    epilog="""\b
Examples:
  courier streams
  courier streams 'agents/**' --sort depth
  courier streams --json | jq -r 'select(.depth > 1000) | .stream'
""",
)
@click.argument("pattern", type=PATTERN, default="**")
@click.option("--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="What comes first.")
@json_option
@broker_options
def streams(pattern: str, sort: str, as_json: bool, url: str, token: str | None) -> None:
    """List the streams of PATTERN, or all: how many events wait and are in flight, rates, latency, oldest event.

    A stream is known from its first use on; after a restart, from the first use since, or if it has unfinished events.
    """
    run(_list(Client(url, token, f"streams:{pattern}:subscribe"), pattern, sort, person=for_person(as_json)))


async def _list(client: Client, pattern: str, sort: str, *, person: bool) -> None:
    async with client:
        found, is_cut = await read_figures(client, pattern)
    found.sort(key=SORTS[sort])
    if not person:
        for each in found:
            put_json(each)
    elif found:
        head, *rows = figures_table(found, size(sys.stdout)[0])
        put(styled(head, bold=True))
        for row in rows:
            put(row)
    else:
        say("there are no streams yet; 'courier pub STREAM JSON' makes one" if pattern == "**" else "no stream matches")
    if is_cut:
        say(f"only the first {STREAMS_SHOWN_MAX:,} streams are looked at; a narrower pattern shows the others")

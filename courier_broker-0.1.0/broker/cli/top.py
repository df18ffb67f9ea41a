"""`courier top`: the streams in figures, live."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import click

from broker.cli.client import Client, broker_options, run
from broker.cli.figures import SORTS, Figures, figures_table, read_figures
from broker.cli.names import PATTERN
from broker.cli.output import for_person, json_option, put, put_json
from broker.cli.terminal import can_move, size, styled
from broker.cli.units import duration, rate

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""To the other screen, so that what was shown before is there again at the end; and the cursor away."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE_END: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"


@click.command(
    short_help="Watch the streams live.",
    epilog="""\b
Examples:
  courier top
  courier top 'agents/**' --sort oldest --interval 5
  courier top --once --json | jq -s 'map(.depth) | add'
""",
)
@click.argument("pattern", type=PATTERN, default="**")
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many looks. [default: go on]")
@click.option("--once", is_flag=True, help="Look once: the same as -n 1.")
@click.option(
    "--interval", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True, help="Seconds between two looks."
)
@click.option("--sort", type=click.Choice(list(SORTS)), default="in", show_default=True, help="What comes first.")
@json_option
@broker_options
def top(
    pattern: str,
    count: int | None,
    once: bool,
    interval: float,
    sort: str,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Watch the streams of PATTERN, or all: rates, depth, in flight, oldest event and latency. Ctrl-C ends it.

    On a terminal the picture is refreshed in place. Otherwise each look prints one JSON line a stream.
    """
    if once and count is not None:
        raise click.UsageError("--once is -n 1; give one of them")
    looks = 1 if once else count
    client = Client(url, token, f"streams:{pattern}:subscribe")
    run(_watch(client, pattern, sort, interval, looks, person=for_person(as_json)))


async def _watch(client: Client, pattern: str, sort: str, interval: float, looks: int | None, *, person: bool) -> None:
    in_place = person and can_move(sys.stdout) and looks != 1
    async with client:
        with _screen(in_place):
            while True:
                found, _ = await read_figures(client, pattern)
                found.sort(key=SORTS[sort])
                if not person:
                    for each in found:
                        put_json(each)
                elif in_place:
                    _redraw(picture(found, sort=sort, terminal=size(sys.stdout)))
                else:
                    columns, _ = size(sys.stdout)
                    for line in picture(found, sort=sort, terminal=(columns, len(found) + 3)):
                        put(line)
                looks = None if looks is None else looks - 1
                if looks == 0:
                    return
                await asyncio.sleep(interval)


def picture(found: Sequence[Figures], *, sort: str, terminal: tuple[int, int]) -> list[str]:
    """What fits the terminal: a line of totals, a head, and as many streams as there is room for."""
    columns, lines = terminal
    room = max(1, lines - 3)
    head, *rows = figures_table(found[:room], columns)
    hidden = len(found) - len(rows)
    below = [f"{hidden:,} more"[:columns]] if hidden else []
    return [_totals(found, sort)[:columns], styled(head, bold=True), *rows, *below]


def _totals(found: Sequence[Figures], sort: str) -> str:
    oldest = max((each["oldestMs"] for each in found if each["oldestMs"] is not None), default=None)
    parts = [
        f"{len(found):,} {'stream' if len(found) == 1 else 'streams'}",
        f"depth {sum(each['depth'] for each in found):,}",
        f"in flight {sum(each['inflight'] for each in found):,}",
        f"in {rate(sum(each['rateIn'] for each in found))}/s",
        f"out {rate(sum(each['rateOut'] for each in found))}/s",
        f"oldest {duration(oldest)}",
        f"by {sort}",
        datetime.now().astimezone().strftime("%H:%M:%S"),
    ]
    return "  ".join(parts)


@contextmanager
def _screen(in_place: bool) -> Iterator[None]:
    """The other screen of the terminal, until the block ends however it ends."""
    if not in_place:
        yield
        return
    _write(_ENTER)
    try:
        yield
    finally:
        _write(_LEAVE)


def _redraw(lines: Sequence[str]) -> None:
    _write(_HOME + f"{_CLEAR_LINE_END}\r\n".join(lines) + _CLEAR_LINE_END + _CLEAR_BELOW)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

"""Streams in figures, as `courier streams` and `courier top` show them."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from broker.cli.client import Client, expect
from broker.cli.table import Column, table
from broker.cli.units import duration, rate
from broker.limits import PAGE_LIMIT_MAX

Figures = dict[str, Any]

STREAMS_SHOWN_MAX: Final = 10_000
"""How many streams one look takes in; the bound of what this command keeps in memory."""

_COLUMNS: Final = (
    Column("stream", is_number=False, may_shrink=True), Column("depth"), Column("in flight"), Column("in/s"),
    Column("out/s"), Column("p50"), Column("p95"), Column("oldest"), Column("subs"), Column("dead"),
    Column("last"),
)  # fmt: skip

SORTS: Final[dict[str, Callable[[Figures], Any]]] = {
    "name": lambda _each: 0,
    "depth": lambda each: -each["depth"],
    "inflight": lambda each: -each["inflight"],
    "in": lambda each: -each["rateIn"],
    "out": lambda each: -each["rateOut"],
    "p95": lambda each: -(each["latP95"] or 0),
    "oldest": lambda each: -(each["oldestMs"] or 0),
    "dead": lambda each: -each["totals"]["dead"],
}
"""What streams may be sorted by; those that are equal stay in the order of their names."""


async def read_figures(client: Client, pattern: str) -> tuple[list[Figures], bool]:
    """Every stream of a pattern, sorted by name, and whether there are more than are looked at."""
    found: list[Figures] = []
    after = ""
    while True:
        params = {"stream": pattern, "limit": str(PAGE_LIMIT_MAX)}
        page = await client.get("v1/stats", {**params, "after": after} if after else params)
        expect(page, "streams", "next")
        found += page["streams"]
        after = page["next"]
        if after is None or len(found) >= STREAMS_SHOWN_MAX:
            return found, after is not None


def _age_ms(time: str | None) -> float | None:
    """How long ago a time of the broker was, by the clock of this machine."""
    if time is None:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds() * 1000)


def figures_table(streams: Sequence[Figures], width: int) -> list[str]:
    """A head, and a line for each stream."""
    return table(_COLUMNS, [_row(each) for each in streams], width)


def _row(each: Figures) -> list[str]:
    return [
        each["stream"],
        f"{each['depth']:,}",
        f"{each['inflight']:,}",
        rate(each["rateIn"]),
        rate(each["rateOut"]),
        duration(each["latP50"]),
        duration(each["latP95"]),
        duration(each["oldestMs"]),
        str(each["subscribers"]),
        str(each["totals"]["dead"]),
        duration(_age_ms(each["lastTs"])),
    ]

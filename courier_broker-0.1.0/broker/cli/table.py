"""Rows under their heads, no wider than the terminal."""

from collections.abc import Sequence
from typing import NamedTuple

GAP = "  "
ELLIPSIS = "…"
_SHRUNK_MIN = 8
"""How narrow a column that may be shortened gets before lines are simply cut off."""


class Column(NamedTuple):
    """How one column is shown."""

    head: str
    is_number: bool = True
    """Numbers stand at the right."""
    may_shrink: bool = False
    """Whether its texts are shortened when the terminal is too narrow."""


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The head and a line for each row."""
    widths = [max(len(column.head), *(len(row[at]) for row in rows), 1) for at, column in enumerate(columns)]
    while (over := sum(widths) + len(GAP) * (len(widths) - 1) - width) > 0:
        flexible = [at for at, column in enumerate(columns) if column.may_shrink and widths[at] > _SHRUNK_MIN]
        if not flexible:
            break
        widest = max(flexible, key=lambda at: widths[at])
        widths[widest] -= min(over, widths[widest] - _SHRUNK_MIN, max(1, over // len(flexible)))
    heads = [column.head for column in columns]
    return [_line(columns, widths, row)[:width].rstrip() for row in (heads, *rows)]


def _line(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str]) -> str:
    cells = []
    for column, width, text in zip(columns, widths, texts, strict=True):
        fitting = text if len(text) <= width else text[: width - 1] + ELLIPSIS
        cells.append(fitting.rjust(width) if column.is_number else fitting.ljust(width))
    return GAP.join(cells)

"""Plots as SVG, drawn by hand: bars, percentiles and curves, which read the same on a light and a dark page."""

import math
from collections.abc import Callable, Sequence
from html import escape

from bench.results import RATE, Row, Table
from bench.shown import figure

WIDTH, BAR_HEIGHT, GAP = 720, 22, 10
LEFT, RIGHT, TOP = 210, 90, 34
CURVE_HEIGHT = 260
COLOURS = ("#2f6f9f", "#b8860b", "#5b8c5a", "#8c5a7d", "#a0522d", "#607080", "#3a8f8f", "#99582a")
TEXT = "#7a7a7a"


def plot(table: Table) -> str:
    """The plot that a table asks for."""
    rows = [row for row in table.rows if row.figures and (not table.x or table.x in row.figures)]
    match table.plot:
        case "percentiles":
            body, height = _percentiles(table, rows)
        case "curve":
            body, height = _curve(table, rows)
        case _:
            body, height = _bars(next(iter(table.columns)), rows)
    title = f'<text x="0" y="16" font-weight="bold">{escape(table.title)}</text>'
    unit = f'<text x="{WIDTH}" y="16" text-anchor="end">{escape(_unit(table))}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(table.title, quote=True)}" font-family="sans-serif" font-size="12" '
        f'fill="{TEXT}">{title}{unit}{body}</svg>\n'
    )


def _unit(table: Table) -> str:
    if table.plot == "percentiles":
        return "milliseconds, logarithmic"
    return table.columns[RATE if RATE in table.columns else next(iter(table.columns))]


def _bars(key: str, rows: Sequence[Row]) -> tuple[str, int]:
    """A bar for each row, and its figure behind it."""
    largest = max((row.figures[key] for row in rows), default=0) or 1
    parts, y = [], TOP
    for row in rows:
        value = row.figures[key]
        length = (WIDTH - LEFT - RIGHT) * value / largest
        colour = COLOURS[0] if row.name.startswith("Courier") else COLOURS[5]
        middle = y + BAR_HEIGHT - 7
        parts += [
            f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(row.name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT}" fill="{colour}"/>',
            f'<text x="{LEFT + length + 6:.1f}" y="{middle}">{figure(value)}</text>',
        ]
        y += BAR_HEIGHT + GAP
    return "".join(parts), y


def _percentiles(table: Table, rows: Sequence[Row]) -> tuple[str, int]:
    """A line for each row over the percentiles, on a logarithmic scale."""
    keys = list(table.columns)
    values = [max(row.figures[key], 1e-3) for row in rows for key in keys]
    places = [LEFT + (WIDTH - LEFT - RIGHT) * at / max(1, len(keys) - 1) for at in range(len(keys))]
    lines = [
        (row.name, [(x, max(row.figures[key], 1e-3)) for x, key in zip(places, keys, strict=True)]) for row in rows
    ]
    labels = [(x, key) for x, key in zip(places, keys, strict=True)]
    return _lines(lines, labels, values, logarithmic=True)


def _curve(table: Table, rows: Sequence[Row]) -> tuple[str, int]:
    """The rate over another column, whose steps are equally far apart on a logarithmic scale."""
    across = [max(row.figures[table.x], 1) for row in rows]
    low, high = math.log(min(across)), math.log(max(across))
    places = [LEFT + (WIDTH - LEFT - RIGHT) * (math.log(x) - low) / ((high - low) or 1) for x in across]
    line = list(zip(places, (row.figures[RATE] for row in rows), strict=True))
    labels = [(place, f"{row.figures[table.x]:,.0f}") for place, row in zip(places, rows, strict=True)]
    return _lines([(table.columns[table.x], line)], labels, [y for _, y in line], logarithmic=False)


def _lines(
    lines: Sequence[tuple[str, list[tuple[float, float]]]],
    labels: Sequence[tuple[float, str]],
    values: Sequence[float],
    *,
    logarithmic: bool,
) -> tuple[str, int]:
    bottom = TOP + CURVE_HEIGHT
    ticks = _decades(values) if logarithmic else _steps(max(values, default=1))
    scale: Callable[[float], float] = math.log if logarithmic else float
    low, high = scale(ticks[0]), scale(ticks[-1])

    def height_of(value: float) -> float:
        return bottom - CURVE_HEIGHT * (scale(value) - low) / ((high - low) or 1)

    parts = []
    for tick in ticks:
        y = height_of(tick)
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{TEXT}" stroke-opacity="0.25"/>',
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{figure(tick)}</text>',
        ]
    parts += [f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(label)}</text>' for x, label in labels]
    for place, (name, points) in enumerate(lines):
        colour = COLOURS[place % len(COLOURS)]
        path = " ".join(f"{x:.1f},{height_of(value):.1f}" for x, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{height_of(value):.1f}" r="3" fill="{colour}"/>' for x, value in points]
        parts.append(f'<text x="0" y="{TOP + 14 + 18 * place}" fill="{colour}">{escape(name)}</text>')
    return "".join(parts), bottom + 30


def _decades(values: Sequence[float]) -> list[float]:
    """Powers of ten around all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _steps(largest: float) -> list[float]:
    """From nothing to beyond the largest, in four to eight round steps."""
    power = 10.0 ** math.floor(math.log10(largest or 1))
    step = next(step * power for step in (0.2, 0.25, 0.5, 1.0, 2.0) if largest / (step * power) <= 6)
    return [step * place for place in range(math.ceil(largest / step) + 1)]

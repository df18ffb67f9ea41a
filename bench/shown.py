"""A table as text, for a terminal."""

from bench.results import Row, Table


def as_text(table: Table) -> str:
    """A table with its ratios, in columns."""
    heads = ["", *table.columns.values()]
    lines = [heads, *([row.name, *_cells(row, table)] for row in table.rows)]
    widths = [max(len(line[place]) for line in lines if place < len(line)) for place in range(len(heads))]
    shown = [table.title]
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=False)),
        ]
        shown.append("  " + "  ".join(cells).rstrip())
    shown += [f"  {row.name}: {row.skipped or row.note}" for row in table.rows if row.skipped or row.note]
    for ratio in table.ratios:
        goal = f" (goal: {ratio.goal})" if ratio.goal else ""
        shown.append(f"  {ratio.of} / {ratio.to} = {ratio.value:.2f}{goal}")
    return "\n".join(shown)


def _cells(row: Row, table: Table) -> list[str]:
    if row.skipped:
        return ["skipped"]
    return [figure(row.figures[key]) if key in row.figures else "" for key in table.columns]


def figure(value: float) -> str:
    """A figure with as many places as mean something."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"

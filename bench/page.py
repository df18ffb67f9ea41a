"""The page of a run: `bench.page RESULT.json` writes `docs/benchmarks.md`, with its plots and results beside it.

Everything with a figure in it is made from the file of results, so that the page cannot say what no run has found.
"""

import argparse
from pathlib import Path

from bench.plots import plot
from bench.results import Row, Run, Table, load, save
from bench.shown import figure

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/benchmarks.md"
PLOTS = "benchmarks"
START, END = "<!-- Made by bench/page.py -->", "<!-- End of what is made by bench/page.py -->"


def made(run: Run) -> str:
    """What the page says of a run."""
    return "\n\n".join([_conditions(run), *(_section(run, table) for table in run.tables)])


def _conditions(run: Run) -> str:
    machine = run.machine
    rows = {
        "Date": run.date,
        "Command": f"`{run.command}`",
        "Commit": f"`{run.commit}`",
        "Machine": f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB",
        "System": f"{machine.system}, {machine.filesystem}, Python {machine.python}",
        "Versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
    }
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {_cell(value)} |" for name, value in rows.items())]
    return "\n".join(["## This run", "", *lines])


def _section(run: Run, table: Table) -> str:
    heads = ["", *table.columns.values(), "What it does not do, or does otherwise"]
    if not any(row.note or row.skipped for row in table.rows):
        heads.pop()
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---', *('---:' for _ in table.columns)])} |"]
    if len(heads) > 1 + len(table.columns):
        lines[1] = f"{lines[1]} --- |"
    for row in table.rows:
        cells = [row.name, *(_figure(row, key) for key in table.columns), row.skipped or row.note]
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells[: len(heads)])} |")
    parts = [f"## {table.title}", table.text, f"![{table.title}]({PLOTS}/{table.name}.svg)", "\n".join(lines)]
    if table.ratios:
        parts.append("\n".join(f"- {_ratio(ratio.of, ratio.to, ratio.value, ratio.goal)}" for ratio in table.ratios))
    machine = run.machine
    where = f"{machine.processor}, {machine.cores} cores, {run.date}, `{run.commit}`"
    parts.append(f"{where}: `python -m bench {table.scenario}`")
    return "\n\n".join(parts)


def _figure(row: Row, key: str) -> str:
    return "not measured" if row.skipped else figure(row.figures[key]) if key in row.figures else ""


def _ratio(of: str, to: str, value: float, goal: str) -> str:
    return f"{of} / {to}: {value:.2f}" + (f" (goal: {goal})" if goal else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write(run: Run, page: Path = PAGE) -> None:
    """Put what is made into the page, between its marks, and the plots beside it."""
    before, start, rest = page.read_text().partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"{page} lacks the lines {START!r} and {END!r}, between which the figures go")
    page.write_text(f"{before}{START}\n\n{made(run)}\n\n{END}{after}")
    plots = page.parent / PLOTS
    plots.mkdir(exist_ok=True)
    save(run, plots / "result.json")
    for old in plots.glob("*.svg"):
        old.unlink()
    for table in run.tables:
        if any(row.figures for row in table.rows):
            (plots / f"{table.name}.svg").write_text(plot(table))


def main() -> None:
    """Write the page of a file of results."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    write(load(given.result), given.page)


if __name__ == "__main__":
    main()

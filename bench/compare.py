"""Two runs beside each other: `python -m bench.compare SAVED.json NEW.json`.

Ratios within a run are compared, since machines differ and change; a ratio that fell by more than the tolerance is
a regression, and ends the comparison with exit code 1. Rates are shown when both runs are of one machine.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.results import Run, load

TOLERANCE = 0.15


class Change(NamedTuple):
    """A figure in both runs."""

    table: str
    what: str
    saved: float
    new: float
    judged: bool
    """Whether it is worse when it is smaller."""

    @property
    def relative(self) -> float:
        """How much it is of what it was."""
        return self.new / self.saved if self.saved else float("inf")


def ratios(saved: Run, new: Run) -> Iterator[Change]:
    """The ratios that both runs have. Between two ways to use the broker they are not judged: either may get better."""
    before = {(table.name, each.of, each.to): each.value for table in saved.tables for each in table.ratios}
    for table in new.tables:
        for each in table.ratios:
            if (value := before.get((table.name, each.of, each.to))) is not None:
                judged = bool(each.goal) or not each.to.startswith("Courier")
                yield Change(table.name, f"{each.of} / {each.to}", value, each.value, judged)


def rates(saved: Run, new: Run) -> Iterator[Change]:
    """The first figures of rows that both runs have."""
    before = {(table.name, row.name): row.figures for table in saved.tables for row in table.rows}
    for table in new.tables:
        key = next(iter(table.columns))
        for row in table.rows:
            value = before.get((table.name, row.name), {}).get(key)
            if value is not None and key in row.figures:
                yield Change(table.name, f"{row.name}, {table.columns[key]}", value, row.figures[key], False)


def fell(changes: Iterable[Change], tolerance: float) -> list[Change]:
    """Those that are smaller by more than this share."""
    return [each for each in changes if each.judged and each.relative < 1 - tolerance]


def main() -> None:
    """Print what changed, and exit with 1 if a ratio fell."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("saved", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="a share (default: %(default)s)")
    given = parser.parse_args()
    saved, new = load(given.saved), load(given.new)
    compared = list(ratios(saved, new))
    shown = compared + (list(rates(saved, new)) if saved.machine == new.machine else [])
    if not shown:
        raise SystemExit("the two runs have no figure in common; run the same scenarios")
    for each in shown:
        print(f"{each.table:20} {each.what:50} {each.saved:14,.3f} {each.new:14,.3f} {each.relative - 1:+8.1%}")
    if worse := fell(compared, given.tolerance):
        named = ", ".join(f"{each.table}: {each.what}" for each in worse)
        raise SystemExit(f"{len(worse)} ratios fell by more than {given.tolerance:.0%}: {named}")


if __name__ == "__main__":
    main()

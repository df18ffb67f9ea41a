"""What a run found: tables, with the machine and the versions that they were found on; kept as JSON."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw
import msgspec

from bench.turns import Standing

PACKAGES = ("courier-broker", "aiohttp", "uvloop", "orjson", "msgspec", "apsw", "litequeue", "persist-queue", "huey")
RATE, BUSY = "rate", "busy"
COLUMN_OF_BUSY = "generator busy, %"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One contender, or one size, in a table."""

    name: str
    figures: dict[str, float] = {}
    """By the keys of the table's columns."""
    rounds: list[float] = []
    """What each round gave, for the column `rate`."""
    note: str = ""
    skipped: str = ""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """How many times as much of something one row has as another; the median of what the rounds say."""

    of: str
    to: str
    value: float
    goal: str = ""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer."""

    name: str
    title: str
    text: str
    """What was done, for a reader who wants to do it again."""
    columns: dict[str, str]
    """The figures of its rows, and what each is called, with its unit."""
    rows: list[Row]
    ratios: list[Ratio] = []
    plot: str = "bars"
    """`bars` of the first column, `percentiles` with a line for each row, or `curve` over `x`."""
    x: str = ""
    """The column over which a curve is drawn."""
    scenario: str = ""
    """What `python -m bench` is told to get it."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured."""

    processor: str
    cores: int
    memory_gib: float
    system: str
    filesystem: str
    python: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the benchmark."""

    date: str
    command: str
    commit: str
    machine: Machine
    versions: dict[str, str]
    tables: list[Table]


def table_of(
    name: str,
    title: str,
    text: str,
    standings: Iterable[Standing],
    *,
    goals: Mapping[tuple[str, str], str] | None = None,
    unit: str = "events a second",
) -> Table:
    """A table of rates, with the ratio of the first contender to each of the others."""
    standings = list(standings)
    goals = goals or {}
    rows = [
        Row(
            name=each.name,
            figures=_figures(each),
            rounds=each.rates,
            note=each.note,
            skipped=each.skipped,
        )
        for each in standings
    ]
    first, *others = [each for each in standings if each.rates]
    ratios = [
        Ratio(of=first.name, to=each.name, value=first.ratio(each), goal=goals.get((first.name, each.name), ""))
        for each in others
    ]
    columns = {RATE: unit} | ({BUSY: COLUMN_OF_BUSY} if any(each.busy for each in standings) else {})
    return Table(name=name, title=title, text=text, columns=columns, rows=rows, ratios=ratios)


def _figures(standing: Standing) -> dict[str, float]:
    if not standing.rates:
        return {}
    return {RATE: standing.rate} | ({BUSY: 100 * standing.busy} if standing.busy else {})


def run_of(tables: Sequence[Table], directory: Path, versions: Mapping[str, str] | None = None) -> Run:
    """A run that is over, with what it ran on."""
    return Run(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=" ".join(["python -m bench", *sys.argv[1:]]),
        commit=_commit(),
        machine=_machine(directory),
        versions={**_versions(), **(versions or {})},
        tables=list(tables),
    )


def save(run: Run, path: Path) -> None:
    """Write a run as JSON that people can read and compare."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")


def load(path: Path) -> Run:
    """Read a run; raise msgspec.ValidationError for what is none."""
    return msgspec.json.decode(path.read_bytes(), type=Run)


def _commit() -> str:
    try:
        found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _versions() -> dict[str, str]:
    found = {"SQLite": apsw.sqlite_lib_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _machine(directory: Path) -> Machine:
    return Machine(
        processor=_first_line_of("/proc/cpuinfo", "model name") or platform.machine(),
        cores=os.cpu_count() or 0,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        filesystem=filesystem_of(directory),
        python=platform.python_version(),
    )


def _first_line_of(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def filesystem_of(directory: Path) -> str:
    """The type of the file system that a directory is on; a sync on tmpfs costs nothing and proves nothing."""
    place, best, kind = str(directory.resolve()), "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return kind
    for line in mounts:
        _, where, found, *_ = line.split()
        if (place + "/").startswith(where.rstrip("/") + "/") and len(where) >= len(best):
            best, kind = where, found
    return kind

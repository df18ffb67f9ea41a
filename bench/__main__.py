"""The benchmark: `python -m bench` runs what `make bench` does, `python -m bench ws-1 http` what is named.

Everything that is measured is started by it, and ended. A run that loses, doubles or alters an event fails.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from bench.failure import BenchmarkFailed
from bench.results import Run, filesystem_of, run_of, save
from bench.scenarios import SCENARIOS, SHORT
from bench.settings import Settings
from bench.shown import as_text
from bench.systems.peers import versions
from bench.turns import Plan

PLACE = Path("build/bench")


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"any of {', '.join(SCENARIOS)}")
    made.add_argument("--full", action="store_true", help="all scenarios, with every size and longer rounds")
    made.add_argument("--seconds", type=float, help="how long a round of one contender is (1; with --full 3)")
    made.add_argument("--rounds", type=int, help="how many rounds each has (3; with --full 5)")
    made.add_argument("--out", type=Path, default=PLACE / "result.json", help="where the result goes (%(default)s)")
    made.add_argument(
        "--directory",
        type=Path,
        default=PLACE,
        help="for the files of what is measured: on the disk meant (%(default)s)",
    )
    return made


def run(given: argparse.Namespace) -> Run:
    """Run what is asked for, printing each table when it is there."""
    names = given.scenarios or (tuple(SCENARIOS) if given.full else SHORT)
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise BenchmarkFailed(f"there is no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    given.directory.mkdir(parents=True, exist_ok=True)
    if filesystem_of(given.directory) == "tmpfs":
        print(f"{given.directory} is on tmpfs, where a sync costs nothing: use --directory", file=sys.stderr)
    plan = Plan(seconds=given.seconds or (3.0 if given.full else 1.0), rounds=given.rounds or (5 if given.full else 3))
    tables = []
    for name in names:
        with tempfile.TemporaryDirectory(dir=given.directory, prefix=f"{name}-") as home:
            for table in SCENARIOS[name](Settings(Path(home).resolve(), plan, given.full)):
                print(as_text(table), end="\n\n", flush=True)
                tables.append(msgspec.structs.replace(table, scenario=name))
    return run_of(tables, given.directory, versions())


def main() -> None:
    """Run, save, and fail with the reason if a run does not count."""
    given = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started is ended all the same
    try:
        save(run(given), given.out)
    except BenchmarkFailed as failure:
        raise SystemExit(f"the benchmark failed: {failure}") from None
    print(f"The result is in {given.out}")


if __name__ == "__main__":
    main()

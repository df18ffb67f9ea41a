"""What a run is told: how long, how large, where."""

from dataclasses import dataclass
from pathlib import Path

from bench.turns import Plan


@dataclass(frozen=True)
class Settings:
    """The same for every scenario of a run."""

    directory: Path
    """For the files of everything that is measured; on the disk that is meant."""
    plan: Plan
    full: bool = False
    """The long run: more sizes, larger ledgers, every peer."""

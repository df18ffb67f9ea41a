"""Contenders in turns: each does a round, then each the next, so that what slows the machine down slows all of them.

Everybody's round takes about as long: how many events that is, is found out in a warm-up that does not count.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.failure import NotInstalled
from bench.load.drive import Timed

Turn = Callable[[int, int], Timed]
"""Given the number of the first event and how many, do them, check them, and say how long it took."""

FIRST_EVENTS = 1_000
WARM_UP_SECONDS = 0.3


@dataclass(frozen=True)
class Contender:
    """One way to do the same work."""

    name: str
    start: Callable[[Path], AbstractContextManager[Turn]]
    """Make it ready in a directory of its own; raises NotInstalled. When it ends, it may still fail."""
    step: int = 1
    """Its rounds are a multiple of so many events."""
    note: str = ""
    """What it does not do that the others do."""


@dataclass(frozen=True)
class Plan:
    """How long, and how often."""

    seconds: float = 1.0
    rounds: int = 5
    events_max: int = 1_000_000
    first_events: int = FIRST_EVENTS


@dataclass
class Standing:
    """What came of one contender."""

    name: str
    note: str = ""
    rates: list[float] = field(default_factory=list)
    busy: float = 0.0
    """The largest part of a round that the load generator was at work."""
    events: int = 0
    """How many it did in a round."""
    skipped: str = ""
    """Why it did not run, if it did not."""

    @property
    def rate(self) -> float:
        """Events a second: the median of its rounds."""
        return median(self.rates)

    def ratio(self, other: "Standing") -> float:
        """How many times as fast as another: the median of what each round says."""
        return median(mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True))


def in_turns(contenders: Sequence[Contender], plan: Plan, directory: Path) -> list[Standing]:
    """Start all, let them take turns, end all; one standing for each, in their order."""
    standings = [Standing(contender.name, contender.note) for contender in contenders]
    with ExitStack() as running:
        runners: list[tuple[Standing, Turn, int]] = []
        for contender, standing in zip(contenders, standings, strict=True):
            home = directory / contender.name.replace("/", "-").replace(" ", "-")
            home.mkdir(parents=True)
            try:
                turn = running.enter_context(contender.start(home))
            except NotInstalled as missing:
                standing.skipped = str(missing)
                continue
            runners.append((standing, turn, contender.step))
        numbers = [1] * len(runners)
        for place, (standing, turn, step) in enumerate(runners):
            numbers[place], standing.events = _warm_up(turn, step, plan)
        for _ in range(plan.rounds):
            for place, (standing, turn, _step) in enumerate(runners):
                timed = turn(numbers[place], standing.events)
                numbers[place] += standing.events
                standing.rates.append(standing.events / timed.seconds)
                standing.busy = max(standing.busy, timed.busy)
    return standings


def _warm_up(turn: Turn, step: int, plan: Plan) -> tuple[int, int]:
    """The next number, and how many events take as long as a round should."""
    number, count = 1, _multiple(plan.first_events, step)
    for seconds in (min(WARM_UP_SECONDS, plan.seconds), plan.seconds):
        rate = count / turn(number, count).seconds
        number += count
        count = _multiple(min(plan.events_max, max(plan.first_events, rate * seconds)), step)
    return number, count


def _multiple(count: float, step: int) -> int:
    return max(1, round(count / step)) * step

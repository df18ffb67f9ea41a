"""Any program of publish, schedule, cancel, subscribe, crash and clock jumps agrees with a model.

A crash is the files as they were in the middle of a commit: the next broker is opened on a copy of them. What the old
one still had in memory, its acknowledgements above all, is not in it.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker import Broker
from broker.bus import Event
from broker.clock import ManualClock
from broker.core import DurableCore
from broker.journal.connection import FILE_NAME
from tests.scheduler.conftest import query, scheduler
from tests.support.writer import PATIENCE_SECONDS

TOPICS = ("a", "b", "t.a")
PATTERNS = (*TOPICS, "t.*", "**")

step = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(TOPICS)),
    st.tuples(st.just("schedule"), st.tuples(st.sampled_from(TOPICS), st.integers(0, 20))),
    st.tuples(st.just("schedule"), st.tuples(st.sampled_from(TOPICS), st.integers(0, 20))),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("subscribe"), st.sampled_from(PATTERNS)),
    st.tuples(st.just("crash"), st.none()),
    st.tuples(st.just("pass time"), st.integers(1, 10)),
    st.tuples(st.just("set the clock"), st.integers(-30, 30)),
)


class Program:
    """The bus under test, and what is known of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.lives = 0
        self.clock = ManualClock()
        self.broker: Broker
        self.made = 0
        self.published: set[int] = set()
        self.deferred: dict[int, tuple[int, int]] = {}
        """The number and the time of what is put off, by its id."""
        self.fired: list[int] = []
        self.cancelled: set[int] = set()
        self.handled: Counter[int] = Counter()

    @property
    def _directory(self) -> Path:
        return self.home / str(self.lives)

    async def open(self) -> None:
        self.broker = await Broker.open(self._directory, {"bus": {"stopMs": 0}}, clock=self.clock)

    def _handle(self, event: Event) -> None:
        self.handled[event.payload["n"]] += 1

    def _next(self) -> dict[str, int]:
        self.made += 1
        return {"n": self.made}

    async def do(self, what: str, how: Any) -> None:
        if what == "publish":
            payload = self._next()
            await self.broker.bus.publish(how, "model", payload)
            self.published.add(payload["n"])
        elif what == "schedule":
            payload = self._next()
            topic, seconds = how
            deferred_id = await self.broker.bus.schedule_at(seconds, topic, "model", payload)
            self.deferred[deferred_id] = (payload["n"], self.clock.wall_us() + seconds * 1_000_000)
        elif what == "cancel" and self.deferred:
            await self.settle()
            deferred_id = list(self.deferred)[how % len(self.deferred)]
            waits = deferred_id not in self.fired and deferred_id not in self.cancelled
            assert await self.broker.bus.cancel(deferred_id) is waits
            if waits:
                self.cancelled.add(deferred_id)
        elif what == "subscribe":
            self.broker.bus.subscribe(how, self._handle, subscriber_id="s")
        elif what == "crash":
            await self.crash()
        elif what == "pass time":
            self.clock.advance(how * 1_000)
            self.due()
        elif what == "set the clock":
            await self.settle()
            self.clock.set_wall_us(self.clock.wall_us() + how * 1_000_000)
            await self.settle()

    def due(self) -> None:
        scheduler(self.broker).look()

    async def settle(self) -> None:
        """Everything that is due has fired, and nothing else has."""
        now = self.clock.wall_us()
        due = sorted((at, each) for each, (_, at) in self.deferred.items() if at <= now)
        gone = {*self.fired, *self.cancelled}
        self.fired += [each for _, each in due if each not in gone]
        self.due()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self._statuses() != self._expected():  # noqa: ASYNC110 - what is waited for is on disk
                await asyncio.sleep(0)

    def _expected(self) -> dict[int, str]:
        known = dict.fromkeys(self.deferred, "scheduled") | dict.fromkeys(self.fired, "fired")
        return known | dict.fromkeys(self.cancelled, "cancelled")

    async def _statuses(self) -> dict[int, str]:
        return dict(await query(self.broker, "SELECT id, status FROM deferred_events"))

    async def crash(self) -> None:
        core = self.broker._core
        assert isinstance(core, DurableCore)
        before, after = self._directory, self.home / str(self.lives + 1)
        after.mkdir()

        def copy(_connection: Any) -> None:
            for name in (FILE_NAME, f"{FILE_NAME}-wal"):
                shutil.copy(before / name, after / name)

        await core.journal.execute(copy)
        await self.broker.close()
        self.lives += 1
        await self.open()

    async def check(self) -> None:
        """With time and a subscriber to everything, each event is in the journal once and was handled."""
        self.clock.advance(100_000)
        await self.settle()
        self.broker.bus.subscribe("**", self._handle, subscriber_id="last")
        wanted = self.published | {self.deferred[each][0] for each in self.fired}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not wanted <= self.handled.keys():  # noqa: ASYNC110 - handlers are plain functions here
                await asyncio.sleep(0)
        rows = await query(self.broker, "SELECT payload ->> 'n' FROM event_journal")
        assert Counter(n for (n,) in rows) == Counter(wanted)
        assert self.handled.keys() == wanted
        await self.broker.close()


@settings(max_examples=25, deadline=None)
@given(st.lists(step, max_size=20))
def test_any_program_with_crashes_and_clock_jumps_ends_as_the_model_says(steps: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as home:
            program = Program(Path(home))
            await program.open()
            for each in steps:
                await program.do(*each)
            await program.check()

    asyncio.run(run())

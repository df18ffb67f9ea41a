"""Any program of publish, subscribe, unsubscribe and restart agrees with a model."""

import asyncio
import tempfile
from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker import Broker
from broker.bus import Event
from broker.bus.topics import selects
from tests.bus.conftest import journal_row
from tests.support.writer import eventually

TOPICS = ("a", "b", "t.a", "t.b")
PATTERNS = (*TOPICS, "t.*", "*", "**")
NAMES = ("one", "two", "three")

step = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(TOPICS), st.sets(st.sampled_from(NAMES), max_size=1)),
    st.tuples(st.just("subscribe"), st.sampled_from(PATTERNS), st.sampled_from(NAMES)),
    st.tuples(st.just("restart"), st.none(), st.none()),
    st.tuples(st.just("settle"), st.none(), st.none()),
)


class Program:
    """The bus under test, and what is known of it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.broker: Broker
        self.subscribed: list[tuple[str, str]] = []
        self.published: dict[int, tuple[str, frozenset[str]]] = {}
        self.calls: dict[int, list[str]] = defaultdict(list)
        self.first_seen: dict[str, list[int]] = defaultdict(list)

    def handler(self, name: str) -> Any:
        async def handle(event: Event) -> None:
            if event.id not in self.calls:
                self.first_seen[event.topic].append(event.id)
            self.calls[event.id].append(name)
            await asyncio.sleep(0)
            if name in event.payload["fails"]:
                raise ValueError(name)

        return handle

    def waits(self) -> bool:
        """Whether something is pending that has a subscriber."""
        wanted = [t for t in TOPICS if any(selects(pattern, t) for pattern, _ in self.subscribed)]
        known = [f"topics/{topic}" for topic in wanted if f"topics/{topic}" in self.broker.streams()]
        return any(self.broker.stats(name)["depth"] + self.broker.stats(name)["inflight"] for name in known)

    async def open(self) -> None:
        self.broker = await Broker.open(self.directory, {"bus": {"stopMs": 0}})
        self.subscribed = []

    async def do(self, what: str, topic: Any, more: Any) -> None:
        if what == "publish":
            event_id = await self.broker.bus.publish(topic, "model", {"fails": sorted(more)})
            self.published[event_id] = (topic, frozenset(more))
        elif what == "subscribe" and (topic, more) not in self.subscribed:
            self.broker.bus.subscribe(topic, self.handler(more), subscriber_id=more)
            self.subscribed.append((topic, more))
        elif what == "restart":
            await self.broker.close()
            await self.open()
        elif what == "settle":
            await eventually(lambda: not self.waits())

    async def check(self) -> None:
        """With a subscriber to everything, every event comes to the end that the model knows."""
        await self.do("subscribe", "**", "two")
        await eventually(lambda: not self.waits())
        for event_id, (topic, fails) in self.published.items():
            row = await journal_row(self.broker, event_id)
            failed = fails & set(self.calls[event_id])
            assert self.calls[event_id], f"{event_id} of {topic} was never handled"
            if row["status"] == "failed":
                assert all(f"ValueError: {name}" in row["error"] for name in failed)
                assert failed
            else:
                assert row["status"] == "done"
        for topic, seen in self.first_seen.items():
            assert seen == sorted(seen), f"the events of {topic} were begun out of order"
        await self.broker.close()


@settings(max_examples=25, deadline=None)
@given(st.lists(step, max_size=25))
def test_any_program_of_publish_subscribe_and_restart_ends_as_the_model_says(steps: list[tuple[str, Any, Any]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as directory:
            program = Program(directory)
            await program.open()
            for each in steps:
                await program.do(*each)
            await program.check()

    asyncio.run(run())

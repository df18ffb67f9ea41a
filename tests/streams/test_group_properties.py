"""Random programs of groups, acks and crashes on a real journal, against a model.

Whatever happens, a group is owed every event that it has not acknowledged, and nothing that it acknowledged before
the last time that all was written down.
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import uvloop
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from broker.clock import ManualClock
from broker.config import Journal as JournalConfig
from broker.config import Streams
from broker.journal import reader
from broker.journal.journal import Journal
from broker.streams.registry import Registry
from broker.streams.subscription import Subscription
from tests.journal.conftest import event, until
from tests.support.streams import Inbox, Unfired, pages_are_read

STREAMS = ("s/one", "s/two")
GROUPS = ("a", "b")
PATTERN = "s/*"
TORTURE = os.environ.get("HYPOTHESIS_PROFILE") == "torture"


class Machine(RuleBasedStateMachine):
    """Two streams, each with two groups by name or by pattern, and a window of four."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = uvloop.new_event_loop()
        self.clock = ManualClock()
        self.directory = tempfile.TemporaryDirectory()
        self.written: list[tuple[str, str]] = []
        self.acked: dict[str, set[str]] = {group: set() for group in GROUPS}
        self.safe: dict[str, set[str]] = {group: set() for group in GROUPS}
        """What was acknowledged before everything was last on disk."""
        self.unsure: dict[str, set[str]] = {group: set() for group in GROUPS}
        """What was acknowledged after that and before a crash: the timer may have written it down in time."""
        self.members: dict[str, tuple[Inbox, Subscription]] = {}

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        self.run(self.open())

    async def open(self) -> None:
        self.journal = await Journal.open(Path(self.directory.name), JournalConfig(), self.clock)
        config = Streams(default_lease_ms=1000, max_depth=4, max_deliveries=1000)
        self.registry = Registry(config, self.clock, self.journal, self.journal.groups)
        self.registry._dispatcher._loop = Unfired()
        self.journal.on_events = self.registry.committed
        for name, pending, last_seq in await self.journal.readers.run(reader.pending_streams):
            self.registry.recover(name, pending, last_seq)
        self.registry.recover_groups(self.journal.backlog.last_seq)

    async def join(self, group: str) -> None:
        await self.registry.join_group(PATTERN, group, from_start=True)
        inbox = Inbox()
        self.members[group] = inbox, self.registry.subscribe(PATTERN, inbox, group)

    @rule(group=st.sampled_from(GROUPS))
    def leave(self, group: str) -> None:
        if group in self.members:
            self.registry.unsubscribe(self.members.pop(group)[1])

    @rule(stream=st.sampled_from(STREAMS), count=st.integers(3, 9))
    def write(self, stream: str, count: int) -> None:
        names = [f"{stream[2:]}-{len(self.written) + number:03}" for number in range(count)]
        self.run(self.journal.append([event(name, stream=stream) for name in names]))
        self.written += ((stream, name) for name in names)

    @precondition(lambda self: self.written)
    @rule(group=st.sampled_from(GROUPS), credit=st.integers(2, 8), data=st.data())
    def consume(self, group: str, credit: int, data: st.DataObject) -> None:
        """Take some, and acknowledge, refuse or keep each of them."""
        if group not in self.members:
            self.run(self.join(group))
        inbox, subscription = self.members[group]
        self.registry.grant(subscription, credit)
        self.run(pages_are_read(self.registry))
        for name in dict.fromkeys(inbox.ids):
            assert name not in self.acked[group], f"{name} was acknowledged by {group} already"
            what = data.draw(st.sampled_from(["ack", "ack", "nack", "later", "keep"]))
            if what == "ack":
                self.registry.ack(subscription, name)
                self.acked[group].add(name)
            elif what != "keep":
                self.registry.nack(subscription, name, 500 if what == "later" else 0)
        held = {entry.id for entry in subscription.entries.values()}
        inbox.deliveries[:] = [each for each in inbox.deliveries if each[0] in held]

    @rule(milliseconds=st.integers(1, 1500))
    def wait(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.registry.expire()
        for inbox, subscription in self.members.values():
            held = {entry.id for entry in subscription.entries.values()}
            inbox.deliveries[:] = [each for each in inbox.deliveries if each[0] in held]

    @rule()
    def save(self) -> None:
        self.run(self.journal.groups.close())
        self.safe = {group: set(names) for group, names in self.acked.items()}

    @rule()
    def pause(self) -> None:
        """Long enough for what was settled to be written down by itself."""
        self.run(self.saved_by_itself())

    async def saved_by_itself(self) -> None:
        groups = self.journal.groups
        await until(lambda: groups._timer is None and groups._saving is None)

    @rule(crash=st.booleans())
    @precondition(lambda self: self.written)
    def restart(self, crash: bool) -> None:
        """An orderly end writes everything down; a crash takes what was acknowledged of late."""
        self.run(self.end(crash=crash))
        if crash:
            for group in GROUPS:
                self.unsure[group] |= self.acked[group] - self.safe[group]
            self.acked = self.safe
        self.acked = {group: set(names) for group, names in self.acked.items()}
        self.safe = {group: set(names) for group, names in self.acked.items()}
        self.members = {}
        self.run(self.open())

    async def end(self, *, crash: bool) -> None:
        await self.registry.close()
        if crash:
            self.journal.groups._touched.clear()
        await self.journal.close()

    def teardown(self) -> None:
        """Every group gets what it is owed, each stream in order, and nothing else."""
        if not hasattr(self, "registry"):
            self.loop.close()
            return
        for group in GROUPS:
            self.leave(group)
            self.run(self.join(group))
            unsure = self.unsure[group] - self.acked[group]
            owed = {name for _stream, name in self.written} - self.acked[group] - unsure
            inbox, subscription = self.members[group]
            got: list[str] = []
            for _ in range(len(self.written) + 20):
                self.clock.advance(2000)
                self.registry.expire()
                self.registry.grant(subscription, 1)
                self.run(pages_are_read(self.registry))
                for name in inbox.ids:
                    self.registry.ack(subscription, name)
                    got.append(name)
                inbox.deliveries.clear()
            assert len(got) == len(set(got))
            assert owed <= set(got) <= owed | unsure
        self.run(self.end(crash=False))
        self.run(asyncio.sleep(0))
        self.loop.close()
        self.directory.cleanup()


def test_a_group_is_owed_what_it_has_not_acknowledged_whatever_happens() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=2_000 if TORTURE else 60,
            stateful_step_count=60 if TORTURE else 30,
            derandomize=not TORTURE,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=[Phase.generate],  # each step is real work on a real file: shrinking would take an hour
        ),
    )

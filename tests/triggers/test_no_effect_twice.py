"""Whatever is sent, however often, in whatever mixture: each event has its effects once, and no others."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.app import App
from broker.clock import ManualClock
from broker.config import Config
from tests.support.client import JSON
from tests.support.events import body

IDS = ("a", "b", "c")
STREAMS = ("disk/in", "memory/in")
RULES = {
    "copy": {"when": {"to": "*/in"}, "do": [{"action": "route", "to": "disk/copies"}]},
    "tell": {"when": {"to": "*/in"}, "do": [{"action": "notify", "to": "memory/told"}]},
    "chain": {"when": {"to": "disk/copies"}, "do": [{"action": "notify", "to": "disk/chained"}]},
    "back": {"when": {"to": "memory/told"}, "do": [{"action": "notify", "to": "disk/back"}]},
}
EVENT = st.tuples(st.sampled_from(STREAMS), st.sampled_from(IDS))
STEP = st.one_of(
    st.tuples(st.just("send"), st.lists(EVENT, min_size=1, max_size=5)),
    st.tuples(st.just("put"), st.sampled_from(sorted(RULES))),
    st.tuples(st.just("delete"), st.sampled_from(sorted(RULES))),
)


class Model:
    """What must be stored: an effect for each rule that was there when its cause was new."""

    def __init__(self) -> None:
        self.rules: set[str] = set()
        self.seen: set[tuple[str, str]] = set()
        self.effects: list[tuple[str, str]] = []

    def send(self, stream: str, event_id: str) -> None:
        if (stream, event_id) in self.seen:
            return
        self.seen.add((stream, event_id))
        self._emit(stream)

    def _emit(self, stream: str) -> None:
        for rule_id in self.rules:
            rule = RULES[rule_id]
            wanted = rule["when"]["to"]
            if stream == wanted or (wanted == "*/in" and stream.endswith("/in")):
                target = rule["do"][0]["to"]
                self.effects.append((rule_id, target))
                self._emit(target)


async def run(steps: list[tuple[str, Any]], directory: Path) -> None:
    caps = {"memory/**": {"durability": "memory"}}
    given = {"data": str(directory), "server": {"port": 0}, "streams": {"perStreamCaps": caps}}
    app = await App.start(msgspec.convert(given, Config), ManualClock())
    model = Model()
    try:
        for action, what in steps:
            if action == "send":
                await _send(app, what)
                for stream, event_id in what:
                    model.send(stream, event_id)
            elif action == "put":
                await app.core.rule_store.put(what, RULES[what])
                model.rules.add(what)
            elif what in model.rules:
                await app.core.rule_store.delete(what)
                model.rules.discard(what)
        found = await app.journal.execute(
            lambda connection: connection.execute(
                "SELECT substr(source_system, 9), stream FROM ledger WHERE source_system GLOB 'trigger:*'"
            ).fetchall()
        )
        stats = app.registry.stats("memory/told")
    finally:
        await app.drain()
    durable = [effect for effect in model.effects if effect[1].startswith("disk/")]
    assert sorted(found) == sorted(durable)
    told = sum(target == "memory/told" for _, target in model.effects)
    assert (stats["depth"] if stats else 0) == told


async def _send(app: App, events: list[tuple[str, str]]) -> None:
    """One submission, through the gate."""
    answered = asyncio.get_running_loop().create_future()
    principal = app._authenticator.principal(JSON)
    admitted = [app.gate.admit(principal, body(event_id, stream)) for stream, event_id in events]
    app.gate.submit(admitted, answered.set_result)
    receipts = await answered
    assert len(receipts.seqs) == len(events)
    assert 0 not in receipts.seqs


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=12))
def test_each_event_has_the_effects_of_the_rules_of_its_time_once(
    steps: list[tuple[str, Any]], tmp_path_factory: Any
) -> None:
    asyncio.run(run(steps, tmp_path_factory.mktemp("data")))

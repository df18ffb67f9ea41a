"""A broker with rules inside the test, and what it stored."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.app import App
from broker.clock import ManualClock
from tests.conftest import Connect, StartApp
from tests.support.client import Client
from tests.support.events import body
from tests.support.writer import stored

Rule = dict[str, Any]


class Broker:
    """A broker, a client of it, and a clock that stands still."""

    def __init__(self, app: App, client: Client, clock: ManualClock) -> None:
        self.app = app
        self.client = client
        self.clock = clock

    async def send_lines(self, *event_ids: str) -> list[Any]:
        """Events that are one submission; the answers."""
        lines = b"\n".join(body(event_id) for event_id in event_ids)
        headers = {"Content-Type": "application/x-ndjson"}
        async with self.client.session.post("v1/enqueue", data=lines, headers=headers) as response:
            return [json.loads(line) for line in (await response.read()).splitlines()]

    async def events(self, where: str = "1") -> list[tuple[str, dict[str, Any]]]:
        """Every event of the ledger: its stream and its envelope, in order."""
        rows = await stored(self.app, "stream, envelope", where)
        return [(stream, json.loads(envelope)) for stream, envelope in rows]

    async def emitted(self) -> list[tuple[str, dict[str, Any]]]:
        """What rules emitted."""
        return await self.events("source_system GLOB 'trigger:*'")

    async def links(self) -> list[Any]:
        """Which event caused which, by their sequences."""

        def job(connection: Any) -> list[Any]:
            return connection.execute("SELECT effect_seq, cause_seq FROM causes ORDER BY 1").fetchall()

        return await self.app.journal.execute(job)

    def counts(self, rule_id: str) -> dict[str, int]:
        """The counters of a rule that are not zero."""
        rule = self.app.triggers.rules.find(rule_id)
        assert rule is not None
        names = ("matched", "ran", "held_back", "failed", "missing_fields")
        return {name: value for name in names if (value := getattr(rule.tally, name))}

    def last_error(self, rule_id: str) -> str:
        """The last error of a rule."""
        rule = self.app.triggers.rules.find(rule_id)
        assert rule is not None
        return rule.tally.last_error or ""


StartBroker = Callable[..., Awaitable[Broker]]


@pytest.fixture
def broker(start_app: StartApp, connect: Connect) -> StartBroker:
    """`await broker(rule, …, streams={…})`."""

    async def start(*rules: Rule, **sections: Any) -> Broker:
        clock = ManualClock()
        app = await start_app({"triggers": list(rules), **sections}, clock=clock)
        return Broker(app, await connect(app.server.address), clock)

    return start


def notify(rule_id: str = "r", to: str = "out", when: Rule | None = None, **more: Any) -> Rule:
    """A rule that notifies."""
    limits = {key: more.pop(key) for key in ("cooldownMs", "cooldownKey") if key in more}
    return {"id": rule_id, "when": when or {}, "do": [{"action": "notify", "to": to, **more}], "limits": limits}

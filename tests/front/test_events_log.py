"""The log of events of a real session over sockets."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.clock import ManualClock
from broker.errors import ConfigError
from tests.conftest import Connect, StartApp
from tests.journal.conftest import until
from tests.support.events import STREAM
from tests.support.groups import taken
from tests.support.metrics import scrape

MEMORY = "telemetry/door"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_everything_that_happens_to_an_event_has_its_line_in_order(
    start_app: StartApp, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    clock = ManualClock()
    app = await start_app(
        {"events": {"log": str(path)}, "streams": {"perStreamCaps": {MEMORY: {"durability": "memory"}}}}, clock=clock
    )
    client = await connect(app.server.address)
    async with client.subscribe() as subscriber:
        await subscriber.credit(4)
        await client.enqueue("e-1")
        assert await subscriber.ids(1) == ["e-1"]
        await client.enqueue("e-1")
        clock.advance(1_000)
        await subscriber.send(nack="e-1")
        assert await subscriber.ids(1) == ["e-1"]
        clock.advance(30_001)
        app.registry.expire()
        assert await subscriber.ids(1) == ["e-1"]
        await subscriber.ack("e-1")
        await subscriber.settled()
    await client.enqueue("m-1", MEMORY)
    await until(lambda: app.core.events_log is not None and app.core.events_log.waiting == 0)
    found = await scrape(client)
    assert found("courier_event_log_lines_total") == 8
    assert found("courier_event_log_dropped_total", reason="waiting") == 0
    lines = lines_of(path)
    assert all(line.pop("ts").endswith("Z") for line in lines)
    common = {"stream": STREAM, "id": "e-1", "seq": 1}
    assert lines == [
        {"event": "enqueue", **common, "ms": 0.0},
        {"event": "deliver", **common, "attempt": 1, "ms": 0.0},
        {"event": "nack", **common, "attempt": 1, "ms": 1000.0, "sinceFirstDeliveryMs": 1000.0},
        {"event": "deliver", **common, "attempt": 2, "ms": 1000.0},
        {"event": "timeout", **common, "attempt": 2, "ms": 31001.0, "sinceFirstDeliveryMs": 31001.0},
        {"event": "deliver", **common, "attempt": 3, "ms": 31001.0},
        {"event": "ack", **common, "attempt": 3, "ms": 31001.0, "sinceFirstDeliveryMs": 31001.0},
        {"event": "enqueue", "stream": MEMORY, "id": "m-1", "seq": 2**52, "ms": 0.0},
    ]


async def test_what_happens_in_a_consumer_group_says_which_it_is(
    start_app: StartApp, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    app = await start_app({"events": {"log": str(path)}})
    client = await connect(app.server.address)
    await client.enqueue("e-1")
    for query in ({"group": "a"}, {}):
        async with client.subscribe(**query) as subscriber:
            await taken(subscriber, 1)
    await until(lambda: app.core.events_log is not None and app.core.events_log.waiting == 0)
    assert [(line["event"], line.get("group")) for line in lines_of(path)] == [
        ("enqueue", None),
        ("deliver", "a"),
        ("ack", "a"),
        ("deliver", None),
        ("ack", None),
    ]


async def test_what_triggers_do_has_its_lines_and_its_figures(
    start_app: StartApp, connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    rules = [
        {"id": "tell", "when": {"to": STREAM}, "do": [{"action": "notify", "to": "out"}]},
        {"id": "fail", "when": {"to": STREAM}, "do": [{"action": "enrich", "tags": ["${env.nothing}"]}]},
    ]
    app = await start_app({"events": {"log": str(path)}, "triggers": rules})
    client = await connect(app.server.address)
    await client.enqueue("e-1")
    await client.enqueue("e-1")
    await until(lambda: app.core.events_log is not None and app.core.events_log.waiting == 0)
    lines = [line for line in lines_of(path) if "trigger" in line]
    assert [(line["event"], line["trigger"], line["id"], line["seq"]) for line in lines] == [
        ("trigger.run", "tell", "e-1", 1),
        ("trigger.fail", "fail", "e-1", 1),
    ]
    assert all(line["runMs"] >= 0 for line in lines)
    assert "do[0]" in lines[1]["error"]
    found = await scrape(client)
    assert found("courier_trigger_runs_total", trigger="tell") == 1
    assert found("courier_trigger_matched_total", trigger="fail") == 1
    assert found("courier_trigger_failures_total", trigger="fail") == 1
    assert found("courier_trigger_missing_fields_total", trigger="fail") == 1
    assert found("courier_trigger_held_back_total", trigger="tell") == 0


async def test_without_the_setting_there_is_no_log_and_nobody_is_told(start_app: StartApp) -> None:
    app = await start_app()
    assert app.core.events_log is None
    assert app.registry.observer is None


async def test_a_drain_writes_the_last_lines(start_app: StartApp, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    app = await start_app({"events": {"log": str(path)}})
    client = await connect(app.server.address)
    await client.enqueue_all(*(f"e-{number}" for number in range(20)))
    await app.drain()
    assert [line["id"] for line in lines_of(path)] == [f"e-{number}" for number in range(20)]


async def test_a_path_that_cannot_be_written_is_refused_at_the_start(start_app: StartApp, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"events\.log: .* cannot be written: Is a directory"):
        await start_app({"events": {"log": str(tmp_path)}})

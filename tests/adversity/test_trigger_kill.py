"""kill -9 with rules: a cause and all that it set off are there together, or not at all, and nothing is there twice."""

import asyncio
import json
import random
import signal
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from broker.triggers.actions import derived_id
from tests.adversity.conftest import SEED, TORTURE, BrokerEnded, StartBroker
from tests.adversity.load import Load
from tests.adversity.oracle import Oracle

KILLS = 200 if TORTURE else 6
SYNCS = range(5, 60) if TORTURE else (20, 26, 35)
REQUESTS_A_LIFE = 2_000

RULES = [
    {"id": "first", "when": {"to": "load/*"}, "do": [{"action": "notify", "to": "first"}]},
    {"id": "second", "when": {"to": "first"}, "do": [{"action": "route", "to": "second"}]},
    {"id": "tags", "when": {"to": "load/*"}, "do": [{"action": "enrich", "tags": ["seen"]}]},
]
SETTINGS = {"COURIER_TRIGGERS": json.dumps(RULES)}


def check(database: Path) -> int:
    """Compare causes with effects, one by one; how many causes there are."""
    with closing(apsw.Connection(str(database))) as connection:
        rows = connection.execute("SELECT seq, source_system, source_event_id, stream FROM ledger").fetchall()
        links = dict(connection.execute("SELECT effect_seq, cause_seq FROM causes").fetchall())
        untagged = connection.execute(
            "SELECT count(*) FROM ledger WHERE stream GLOB 'load/*' AND NOT instr(envelope, CAST('\"seen\"' AS BLOB))"
        ).get
    events = {seq: (source, event_id) for seq, source, event_id, _ in rows}
    effects = {seq for seq, source, *_ in rows if source.startswith("trigger:")}
    own = [seq for seq, _, _, stream in rows if stream.startswith("load/")]
    assert links.keys() == effects
    for rule, causes in (("first", own), ("second", [seq for seq, *_, stream in rows if stream == "first"])):
        expected = {derived_id(rule, 0, *events[seq]): seq for seq in causes}
        found = {events[seq][1]: links[seq] for seq in effects if events[seq][0] == f"trigger:{rule}"}
        assert found == expected, f"seed {SEED}: {rule} has effects without a cause, or causes without an effect"
    assert len(effects) == 2 * len(own)
    assert untagged == 0
    return len(own)


async def test_a_kill_at_any_moment_leaves_no_cause_without_its_effects(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    load = Load(Oracle(SEED))
    causes = 0
    for _ in range(KILLS):
        broker = await start_broker(tmp_path / "data", settings=SETTINGS)
        await load.settle_doubts(broker.url)
        acknowledged = len(load.oracle.acknowledged)
        running = asyncio.create_task(load.run(broker.url, REQUESTS_A_LIFE))
        await load.acknowledgements(acknowledged + rng.randint(1, 100))
        await broker.kill()
        await running
        causes = check(broker.database)
    broker = await start_broker(tmp_path / "data", settings=SETTINGS)
    await load.settle_doubts(broker.url)
    await broker.stop()
    assert check(broker.database) >= causes >= KILLS
    assert load.oracle.doubted >= KILLS, "else no kill hit anything"


@pytest.mark.usefixtures("needs_strace")
@pytest.mark.parametrize("sync", SYNCS)
async def test_a_kill_at_a_sync_leaves_no_cause_without_its_effects(
    sync: int, start_broker: StartBroker, tmp_path: Path
) -> None:
    load = Load(Oracle(SEED + sync))
    inject = ["-e", "trace=fdatasync,fsync", "-e", f"inject=fdatasync,fsync:signal=KILL:when={sync}"]
    data = tmp_path / "data"
    try:
        broker = await start_broker(data, strace=inject, settings=SETTINGS)
        await load.run(broker.url, REQUESTS_A_LIFE)
        code = await broker.ended()
    except BrokerEnded as ended:
        code = ended.code
    assert code == -signal.SIGKILL
    broker = await start_broker(data, settings=SETTINGS)
    check(broker.database)
    await load.settle_doubts(broker.url)
    await broker.stop()
    check(broker.database)

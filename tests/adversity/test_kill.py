"""kill -9 under load: what was acknowledged is there, once, and what was in doubt settles when it is sent again."""

import asyncio
import random
import shutil
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.adversity.conftest import CONDITION_SECONDS_MAX, SEED, TORTURE, BrokerEnded, StartBroker, Subscriber
from tests.adversity.load import CUT, Load, client, envelope_of, identity_of
from tests.adversity.oracle import Oracle

KILLS = 10_000 if TORTURE else 100
LANES = 3
"""Brokers that live and die beside each other: one starts while another is under load."""

KILLS_A_DIRECTORY = 12
REQUESTS_A_LIFE = 2_000
LOAD_SECONDS_MAX = 0.25

CONSUMER_KILLS = 1_000 if TORTURE else 10
SYNCS = [1, 2, 4, 6, 9, 13, 20, 24, 28, 33, 40, 55, 75, 110, 160]
"""The sync at which to die. The first few are the creation of the database."""

CHECKPOINT_OFTEN = {"COURIER_JOURNAL__WAL_MAX_BYTES": str(1024 * 1024)}


IDENTITY = ("stream:load/0", "one")

DAMAGE = {
    "sound": ("SELECT 1", None),
    "lost": ("DELETE FROM ledger WHERE source_event_id = 'one'", "lost"),
    "altered": ("UPDATE ledger SET envelope = x'7b7d' WHERE source_event_id = 'one'", "never sent"),
    "altered with its hash": (
        "UPDATE ledger SET (envelope, payload_sha256) = (SELECT envelope, payload_sha256 FROM ledger WHERE seq = 2) "
        "WHERE seq = 1",
        "never sent",
    ),
    "under another sequence": ("UPDATE ledger SET seq = 9 WHERE source_event_id = 'one'", "seq 1 was told"),
    "invented": ("UPDATE ledger SET source_event_id = 'three' WHERE source_event_id = 'doubted'", "invented"),
    "stored although refused": (
        "UPDATE ledger SET source_event_id = 'refused', envelope = x'7b7d' WHERE source_event_id = 'doubted'",
        "although it was refused",
    ),
    "uncounted": ("UPDATE ledger SET ingest_attempt_count = 1", "acknowledged 2 times"),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_the_oracle_finds_whatever_a_ledger_has_lost_altered_or_invented(
    damage: str, start_broker: StartBroker, oracle: Oracle, tmp_path: Path
) -> None:
    broker = await start_broker(tmp_path / "data")
    load = Load(oracle)
    doubted, refused = identity_of("load/0", "doubted"), identity_of("load/0", "refused")
    async with client() as session:
        for _ in range(2):
            await load.send(session, broker.url, IDENTITY, envelope_of("load/0", "one", 1))
        await load.send(session, broker.url, doubted, envelope_of("load/0", "doubted", 2))
    await broker.stop()
    oracle.acknowledged.pop()
    oracle.sending(refused, b"{}")
    oracle.refused(refused, b"{}")
    statement, expected = DAMAGE[damage]
    with closing(apsw.Connection(str(broker.database))) as connection:
        connection.execute(statement)
    if expected is None:
        assert len(oracle.check(broker.database)) == 2
    else:
        with pytest.raises(AssertionError, match=f"(?s)seed {oracle.seed}.*{expected}"):
            oracle.check(broker.database)


async def lane(number: int, kills: int, start_broker: StartBroker, directory: Path) -> Counter[str]:
    """Start, load, kill and check, again and again; how often what happened."""
    rng = random.Random(SEED + number)
    counts: Counter[str] = Counter()
    for first in range(0, kills, KILLS_A_DIRECTORY):
        oracle = Oracle(rng.getrandbits(32))
        load = Load(oracle)
        data = directory / f"{number}-{first}"
        for _ in range(first, min(kills, first + KILLS_A_DIRECTORY)):
            broker = await start_broker(data)
            await load.settle_doubts(broker.url)
            oracle.check(broker.database, live=True)
            acknowledged = len(oracle.acknowledged)
            running = asyncio.create_task(load.run(broker.url, REQUESTS_A_LIFE))
            await load.acknowledgements(acknowledged + 1)
            await asyncio.sleep(rng.uniform(0.0, LOAD_SECONDS_MAX))  # the moment of the kill
            await broker.kill()
            await running
            oracle.check(broker.database)
        broker = await start_broker(data)
        await load.settle_doubts(broker.url)
        await broker.stop()
        oracle.check(broker.database)
        shutil.rmtree(data)
        counts["checks"] += oracle.checks
        counts["acknowledged"] += len(oracle.acknowledged)
        counts["duplicates"] += sum(told.duplicate for told in oracle.acknowledged)
        counts["conflicts"] += sum(told.payload_conflict for told in oracle.acknowledged)
        counts["doubts"] += oracle.doubted
        counts["refusals"] += oracle.refusals
    return counts


async def test_a_kill_at_any_moment_takes_nothing_that_was_acknowledged_and_doubles_nothing(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    each = [KILLS // LANES + (number < KILLS % LANES) for number in range(LANES)]
    async with asyncio.TaskGroup() as group:
        lanes = [group.create_task(lane(n, kills, start_broker, tmp_path)) for n, kills in enumerate(each)]
    counts = sum((task.result() for task in lanes), Counter())
    print(f"{KILLS} kills: {dict(counts)}")
    assert counts["checks"] >= 2 * KILLS
    # Else the kills did not hit anything, or the load was too tame to prove something.
    assert counts["acknowledged"] >= 10 * KILLS
    assert min(counts[what] for what in ("doubts", "duplicates", "conflicts", "refusals")) >= KILLS


async def die_at_sync(sync: int, data: Path, start_broker: StartBroker, *, only: Path | None = None) -> bool:
    """Live until that sync (`only` of one file), die, start again and check; whether it died under load."""
    oracle = Oracle(SEED + sync)
    load = Load(oracle, payload_bytes_max=60_000)
    inject = ["-e", "trace=fdatasync,fsync", "-e", f"inject=fdatasync,fsync:signal=KILL:when={sync}"]
    inject += ["-P", str(only)] if only is not None else []
    under_load = False
    try:
        broker = await start_broker(data, strace=inject, settings=CHECKPOINT_OFTEN)
        under_load = True
        await load.run(broker.url, REQUESTS_A_LIFE)
        code = await broker.ended()
    except BrokerEnded as ended:
        code = ended.code
    assert code == -signal.SIGKILL, f"seed {SEED}: it did not come to sync {sync}"
    oracle.check(data / "courier.db")
    broker = await start_broker(data)
    await load.settle_doubts(broker.url)
    await load.run(broker.url, 50)
    await broker.stop()
    oracle.check(broker.database)
    return under_load


@pytest.mark.usefixtures("needs_strace")
async def test_a_kill_at_any_sync_takes_nothing_that_was_acknowledged(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    syncs = list(range(1, 200)) if TORTURE else SYNCS
    waiting = iter(syncs)
    under_load: list[bool] = []

    async def one_after_another() -> None:
        for sync in waiting:
            outcome = await die_at_sync(sync, tmp_path / str(sync), start_broker)
            under_load.append(outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(LANES):
            group.create_task(one_after_another())
    print(f"killed at a sync {sum(under_load)} times under load, {under_load.count(False)} times while starting")
    assert under_load.count(False) >= 3
    assert sum(under_load) >= len(syncs) // 2


@pytest.mark.usefixtures("needs_strace")
@pytest.mark.parametrize("sync", [1, 2, 3])
async def test_a_kill_in_the_middle_of_a_checkpoint_takes_nothing_that_was_acknowledged(
    sync: int, start_broker: StartBroker, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    await (await start_broker(data)).stop()
    # Once it exists and is in WAL mode, only a checkpoint syncs the database itself.
    assert await die_at_sync(sync, data, start_broker, only=data / "courier.db")


class Consumer:
    """Takes deliveries of one stream from one broker after another, and acknowledges some of them."""

    def __init__(self, stream: str, rng: random.Random) -> None:
        self._stream = stream
        self._rng = rng
        self.delivered: set[str] = set()
        self.acked: set[str] = set()
        """Those for which an acknowledgement was at least on its way."""

    async def consume(self, url: str) -> None:
        """Take until the line is cut, and acknowledge two thirds."""
        try:
            async with client() as session, session.ws_connect(f"{url}/v1/subscribe?stream={self._stream}") as socket:
                subscriber = Subscriber(socket)
                await subscriber.grant(100)
                while True:
                    event_id = await subscriber.take()
                    self.delivered.add(event_id)
                    if self._rng.random() < 0.66:
                        self.acked.add(event_id)
                        await subscriber.ack(event_id)
                    await subscriber.grant(1)
        except CUT:
            return

    async def drain(self, url: str, expected: set[str]) -> set[str]:
        """Take and acknowledge until all that is expected has come; what came."""
        async with client() as session, session.ws_connect(f"{url}/v1/subscribe?stream={self._stream}") as socket:
            subscriber = Subscriber(socket)
            await subscriber.grant(1_000)
            async with asyncio.timeout(CONDITION_SECONDS_MAX):
                await subscriber.take_until(expected)
            return set(subscriber.delivered)


async def test_a_kill_redelivers_everything_unacknowledged_and_loses_nothing(
    start_broker: StartBroker, oracle: Oracle, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    load = Load(oracle, streams=1)
    consumer = Consumer("load/0", rng)
    redelivered = 0
    for _ in range(CONSUMER_KILLS):
        broker = await start_broker(tmp_path / "data")
        await load.settle_doubts(broker.url)
        acknowledged = len(oracle.acknowledged)
        consuming = asyncio.create_task(consumer.consume(broker.url))
        running = asyncio.create_task(load.run(broker.url, REQUESTS_A_LIFE))
        await load.acknowledgements(acknowledged + rng.randint(1, 200))
        await asyncio.sleep(rng.uniform(0.0, 0.05))  # the moment of the kill
        await broker.kill()
        await asyncio.gather(running, consuming)
        # A row is done only if its consumer said so; all others are still to be delivered.
        done = {row.identity[1] for row in oracle.check(broker.database) if row.state != 0}
        assert done <= consumer.acked, f"seed {SEED}: never acknowledged by a consumer: {done - consumer.acked}"
        redelivered += len(consumer.delivered - done)
    broker = await start_broker(tmp_path / "data")
    await load.settle_doubts(broker.url)
    rows = oracle.check(broker.database, live=True)
    pending = {row.identity[1] for row in rows if row.state == 0}
    came = await consumer.drain(broker.url, pending)
    never_acked = {row.identity[1] for row in rows} - consumer.acked
    await broker.stop()
    print(f"{CONSUMER_KILLS} kills: {len(rows)} events, {len(consumer.acked)} acked, {redelivered} to be redelivered")
    assert never_acked <= came, f"seed {SEED}: not redelivered: {never_acked - came}"
    assert {row.identity[1] for row in rows} <= came | consumer.delivered
    assert redelivered >= CONSUMER_KILLS
    assert all(row.state == 1 for row in oracle.check(broker.database))

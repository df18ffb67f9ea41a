"""Power cuts while an outbox is at work: what was put and not acknowledged is in every image, byte for byte."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from broker.clock import ManualClock
from edge import Backoff, Outbox, limits, storage
from edge.store import Attempt
from tests.adversity.conftest import SEED, TORTURE
from tests.adversity.edge_device import envelope
from tests.adversity.oracle import scratch_directory
from tests.adversity.power_cut import Image, Kind, Phase, images
from tests.adversity.recording_vfs import Entry, RecordingVFS

IMAGES = 50_000 if TORTURE else 2_000
CONTROL_IMAGES = 500
PRODUCERS = 5
PUTS = 40
"""By each producer, in each of two lives of the outbox."""


@pytest.fixture(autouse=True)
def _small_and_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A WAL that is copied and reset all the time."""
    monkeypatch.setattr(limits, "RESERVE_BYTES", 64 * limits.KIB)
    _set(monkeypatch, "wal_autocheckpoint", 8, 8)


def _set(monkeypatch: pytest.MonkeyPatch, name: str, value: str | int, expected: int) -> None:
    settings = [(each, *rest) if each != name else (name, value, expected) for each, *rest in storage.SETTINGS]
    monkeypatch.setattr(storage, "SETTINGS", tuple(settings))


@dataclass
class Workload:
    """Producers and a sender at an outbox whose every write and sync is recorded."""

    sent: dict[str, bytes] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)

    async def run(self, directory: Path) -> None:
        with RecordingVFS() as vfs:
            for life in range(2):
                path = directory / "outbox.db"
                async with Outbox(path, device_id="pi-1", vfs=vfs.name, clock=ManualClock()) as outbox:
                    async with asyncio.TaskGroup() as group:
                        for producer in range(PRODUCERS):
                            group.create_task(self._produce(outbox, vfs, f"{life}-{producer}"))
                    assert outbox.failure is None
        self.log = vfs.log

    async def _produce(self, outbox: Outbox, vfs: RecordingVFS, name: str) -> None:
        rng = random.Random(f"{SEED} {name}")
        mine: list[str] = []
        for number in range(PUTS):
            event_id = f"{name}-{number}"
            self.sent[event_id] = envelope(event_id, rng)
            await outbox.put(self.sent[event_id])
            vfs.mark(("put", event_id))  # from here on a power cut may not take it away
            mine.append(event_id)
            if rng.random() < 0.3:
                await self._fail(outbox, rng, mine)
            if rng.random() < 0.4:
                going = [mine.pop(rng.randrange(len(mine))) for _ in range(min(len(mine), rng.choice((1, 2, 5))))]
                for each in going:
                    vfs.mark(("acknowledged", each))  # the server has it: from here on it may go
                await outbox.change(lambda store, going=going: store.acknowledge(going))

    async def _fail(self, outbox: Outbox, rng: random.Random, mine: list[str]) -> None:
        at_us = outbox.now_us() + Backoff(1.0, 60.0).delay_us(1, rng)
        attempts = [Attempt(each, at_us, "cut", rejected=rng.random() < 0.3) for each in mine[-3:]]
        await outbox.change(lambda store: store.reschedule(attempts))


@dataclass
class Findings:
    """What a look into many images found."""

    images: int = 0
    lost: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    phases: Counter[Phase] = field(default_factory=Counter)
    kinds: Counter[Kind] = field(default_factory=Counter)

    def __str__(self) -> str:
        examples = "\n".join(self.lost[:3] + self.broken[:3])
        return f"seed {SEED}: {self.images} images, {len(self.lost)} lost, {len(self.broken)} broken\n{examples}"


def read(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """What an outbox holds after a restart, and what is not sound about it."""
    connection = apsw.Connection(str(path))
    try:
        problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        if not connection.execute("SELECT count(*) FROM sqlite_schema").get:
            return {}, problems
        rows = {
            str(key): str(value).encode()
            for key, value in connection.execute("SELECT event_id, payload_json FROM outbox")
        }
        counted = connection.execute("SELECT coalesce(sum(rows), 0), coalesce(sum(rejected), 0) FROM lanes").get
        real = connection.execute("SELECT count(*), count(*) FILTER (WHERE state = 'rejected') FROM outbox").get
        if counted != real:
            problems.append(f"the counts say {counted}, but there are {real}")
        return rows, problems
    finally:
        connection.close()


def examine(image: Image, directory: Path, workload: Workload, findings: Findings) -> None:
    findings.images += 1
    findings.phases.update(image.phases)
    findings.kinds[image.kind] += 1
    path = image.write_to(directory)
    try:
        rows, problems = read(path) if path.exists() else ({}, [])
    except apsw.Error as error:
        findings.broken.append(f"{image}: not sound: {error!r}")
        return
    findings.broken += [f"{image}: {problem}" for problem in problems]
    put = {event_id for what, event_id in image.acknowledged if what == "put"}
    acknowledged = {event_id for what, event_id in image.acknowledged if what == "acknowledged"}
    findings.lost += [f"{image}: {each} is lost" for each in put - acknowledged - rows.keys()]
    findings.broken += [
        f"{image}: {each} was never put like this" for each, line in rows.items() if workload.sent.get(each) != line
    ]


def examine_all(workload: Workload, count: int) -> Findings:
    findings = Findings()
    with scratch_directory() as directory:
        for image in images(workload.log, random.Random(SEED), count):
            examine(image, Path(directory), workload, findings)
    print(findings)
    return findings


async def test_no_power_cut_takes_an_event_that_the_server_does_not_have(tmp_path: Path) -> None:
    workload = Workload()
    await workload.run(tmp_path)
    findings = examine_all(workload, IMAGES)
    assert not findings.lost, str(findings)
    assert not findings.broken, str(findings)
    # Else the cuts did not fall where it hurts.
    for phase in (Phase.COMMIT, Phase.CHECKPOINT, Phase.WAL_RESET, Phase.DIRECTORY, Phase.BEFORE_SYNC):
        assert findings.phases[phase] >= IMAGES // 50, findings.phases
    assert all(findings.kinds[kind] >= IMAGES // 20 for kind in Kind), findings.kinds


async def test_with_synchronous_normal_the_same_power_cuts_do_take_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same load and the same reader must find what the setting gives away, or they prove nothing."""
    _set(monkeypatch, "synchronous", "normal", 1)
    workload = Workload()
    await workload.run(tmp_path)
    findings = examine_all(workload, CONTROL_IMAGES)
    assert len(findings.lost) >= 1, str(findings)


async def test_an_outbox_that_is_opened_from_what_a_power_cut_left_goes_on(tmp_path: Path) -> None:
    workload = Workload()
    await workload.run(tmp_path)
    for image in images(workload.log, random.Random(SEED + 1), 30):
        with scratch_directory() as directory:
            path = image.write_to(Path(directory), "outbox.db")
            async with Outbox(path, device_id="pi-1") as outbox:
                put = {event_id for what, event_id in image.acknowledged if what == "put"}
                gone = {event_id for what, event_id in image.acknowledged if what == "acknowledged"}
                assert outbox.depth >= len(put - gone), str(image)
                receipt = await outbox.put({"type": "after the cut", "payload": {}})
                assert not receipt.duplicate
                for event_id in sorted(put - gone)[:3]:
                    assert (await outbox.put(workload.sent[event_id])) == (event_id, True, False), str(image)

"""Power cuts while the journal itself is at work: thousands of images, and everything acknowledged is in each."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from broker.clock import ManualClock
from broker.config import Journal as JournalConfig
from broker.contracts.courier import parse_envelope
from broker.contracts.inbound import InboundEvent
from broker.journal import checkpointer
from broker.journal.journal import Journal
from broker.journal.submission import Receipts
from tests.adversity.conftest import TORTURE
from tests.adversity.load import envelope_of, identity_of
from tests.adversity.oracle import Identity, Oracle, Row, Told, read_ledger, scratch_directory
from tests.adversity.power_cut import Image, Kind, Phase, images
from tests.adversity.recording_vfs import Entry, RecordingVFS
from tests.support.streams import acked

IMAGES = 100_000 if TORTURE else 5_000
CONTROL_IMAGES = 500
PRODUCERS = 6
APPENDS = 30
"""By each producer, in each of two lives of the journal."""

WAL_BYTES_MAX = 96 * 1024
DONE, DEAD = 1, 2


@pytest.fixture(autouse=True)
def _a_wal_that_is_copied_and_reset_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointer, "LOOK_EVERY_BYTES", 1)
    monkeypatch.setattr(checkpointer, "COPY_FROM_BYTES", 24 * 1024)


@dataclass
class Workload:
    """Producers and a consumer at a journal whose every write and sync is recorded."""

    oracle: Oracle
    synchronous: str
    together: list[list[Identity]] = field(default_factory=list)
    """The new events of each group commit."""
    finished: dict[Identity, int] = field(default_factory=dict)
    """The state that was asked for, of each event that a consumer was done with."""
    log: list[Entry] = field(default_factory=list)
    _events: list[InboundEvent] = field(default_factory=list)

    async def run(self, directory: Path) -> None:
        """Two lives, so that the WAL is also deleted at the end of one and made again."""
        with RecordingVFS() as vfs:
            for life in range(2):
                await self._live(directory, vfs, life)
        self.log = vfs.log

    async def _live(self, directory: Path, vfs: RecordingVFS, life: int) -> None:
        config = JournalConfig(synchronous=self.synchronous, wal_max_bytes=WAL_BYTES_MAX)
        journal = await Journal.open(directory, config, ManualClock(), vfs=vfs.name)
        journal.on_events = self._committed
        try:
            async with asyncio.TaskGroup() as group:
                for producer in range(PRODUCERS):
                    group.create_task(self._produce(journal, vfs, f"{life}-{producer}"))
        finally:
            await journal.close()
        assert journal.health.fatal is None
        assert journal.health.commits > APPENDS

    def _committed(self, events: list[tuple[int, InboundEvent]]) -> None:
        if events:
            self.together.append([(event.source_system, event.source_event_id) for _, event in events])

    async def _produce(self, journal: Journal, vfs: RecordingVFS, name: str) -> None:
        rng = random.Random(f"{self.oracle.seed} {name}")
        for number in range(APPENDS):
            events = [self._event(rng, f"{name}-{number}-{place}") for place in range(rng.choice((1, 1, 1, 2, 5)))]
            for event in events:
                self.oracle.sending((event.source_system, event.source_event_id), event.envelope)
            receipts = await journal.append(events)
            for told in self._told(events, receipts):
                vfs.mark(told)  # from here on a power cut may not take it away
            for event, seq in zip(events, receipts.seqs, strict=True):
                self._finish(journal, rng, event, seq)

    def _event(self, rng: random.Random, event_id: str) -> InboundEvent:
        """A new event mostly; else an old one again, or other bytes under its id."""
        choice = rng.random()
        if choice < 0.15 and self._events:
            return rng.choice(self._events)
        stream = "power/cut"
        if choice < 0.20 and self._events:
            event_id = rng.choice(self._events).source_event_id
        filling = rng.randbytes(rng.choice((10, 100, 100, 3000))).hex()
        event = parse_envelope(stream, envelope_of(stream, event_id, filling), rng.getrandbits(40))
        self._events.append(event)
        return event

    def _told(self, events: Sequence[InboundEvent], receipts: Receipts) -> list[Told]:
        return [
            self.oracle.told(
                identity_of(event.stream, event.source_event_id),
                event.envelope,
                abs(seq),
                duplicate=seq < 0,
                payload_conflict=receipts.duplicates.get(place, (0, False))[1],
            )
            for place, (event, seq) in enumerate(zip(events, receipts.seqs, strict=True))
        ]

    def _finish(self, journal: Journal, rng: random.Random, event: InboundEvent, seq: int) -> None:
        identity = (event.source_system, event.source_event_id)
        if seq > 0 and rng.random() < 0.5:
            self.finished[identity] = rng.choice((DONE, DEAD))
            if self.finished[identity] == DONE:
                journal.processed(acked(seq, 1))
            else:
                journal.dead_letter(seq, 10, 1, "refused by its consumer")


@dataclass
class Findings:
    """What a look into many images found."""

    seed: int
    images: int = 0
    lost: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    phases: Counter[Phase] = field(default_factory=Counter)
    kinds: Counter[Kind] = field(default_factory=Counter)
    finished: int = 0
    """How many events were found in another state than pending."""

    def __str__(self) -> str:
        examples = "\n".join(self.lost[:3] + self.broken[:3])
        return (
            f"seed {self.seed}: {self.images} images, {len(self.lost)} acknowledged events lost, "
            f"{len(self.broken)} other promises broken\n{examples}"
        )


def examine(image: Image, directory: Path, workload: Workload, findings: Findings) -> None:
    """Recover one image as a restart would, and hold it against everything that was promised before the cut."""
    findings.images += 1
    findings.phases.update(image.phases)
    findings.kinds[image.kind] += 1
    path = image.write_to(directory)
    try:
        rows = read_ledger(path) if path.exists() else []
    except apsw.Error as error:
        findings.broken.append(f"{image}: not sound: {error!r}")
        return
    for problem in workload.oracle.problems(rows, image.acknowledged):
        (findings.lost if ": lost;" in problem else findings.broken).append(f"{image}: {problem}")
    findings.broken += [f"{image}: {problem}" for problem in _torn(rows, workload)]
    findings.finished += sum(row.state != 0 for row in rows)


def _torn(rows: list[Row], workload: Workload) -> list[str]:
    """Group commits that are there in part, and states that nobody asked for."""
    found = {row.identity for row in rows}
    problems = [
        f"a group commit of {len(group)} events is there in part"
        for group in workload.together
        if not found.isdisjoint(group) and not found.issuperset(group)
    ]
    return problems + [
        f"{row.identity}: in state {row.state}, but {workload.finished.get(row.identity)} was asked for"
        for row in rows
        if row.state and row.state != workload.finished.get(row.identity)
    ]


def examine_all(workload: Workload, count: int) -> Findings:
    findings = Findings(workload.oracle.seed)
    with scratch_directory() as directory:
        for image in images(workload.log, random.Random(workload.oracle.seed), count):
            examine(image, Path(directory), workload, findings)
    print(findings)
    return findings


async def test_no_power_cut_takes_an_acknowledged_event_or_part_of_a_group_commit(
    oracle: Oracle, tmp_path: Path
) -> None:
    workload = Workload(oracle, "full")
    await workload.run(tmp_path)
    assert not oracle.problems(read_ledger(tmp_path / "courier.db"))
    findings = examine_all(workload, IMAGES)
    assert not findings.lost, str(findings)
    assert not findings.broken, str(findings)
    assert findings.images == IMAGES
    # Else the cuts did not fall where it hurts, or the load was too tame to prove something.
    for phase in (Phase.COMMIT, Phase.CHECKPOINT, Phase.WAL_RESET, Phase.DIRECTORY, Phase.BEFORE_SYNC):
        assert findings.phases[phase] >= IMAGES // 50, findings.phases
    assert all(findings.kinds[kind] >= IMAGES // 20 for kind in Kind), findings.kinds
    assert max(len(group) for group in workload.together) >= 6
    assert sum(told.duplicate for told in oracle.acknowledged) >= 20
    assert sum(told.payload_conflict for told in oracle.acknowledged) >= 5
    assert findings.finished > 0


async def test_with_synchronous_normal_the_same_power_cuts_do_take_acknowledged_events(
    oracle: Oracle, tmp_path: Path
) -> None:
    """The control: the same load and the same reader must find what the setting gives away, or they prove nothing."""
    workload = Workload(oracle, "normal")
    await workload.run(tmp_path)
    findings = examine_all(workload, CONTROL_IMAGES)
    assert len(findings.lost) >= 1, str(findings)
    assert not [one for one in findings.broken if "in part" in one or "not sound" in one], str(findings)


async def test_a_broker_that_starts_from_what_a_power_cut_left_knows_every_acknowledged_event(
    oracle: Oracle, tmp_path: Path
) -> None:
    workload = Workload(oracle, "full")
    await workload.run(tmp_path)
    by_identity = {(event.source_system, event.source_event_id): event for event in reversed(workload._events)}
    for image in images(workload.log, random.Random(oracle.seed + 1), 40):
        with scratch_directory() as directory:
            image.write_to(Path(directory), "courier.db")
            journal = await Journal.open(Path(directory), JournalConfig(), ManualClock())
            try:
                seqs = {told.identity: told.seq for told in image.acknowledged}
                if seqs:
                    receipts = await journal.append([by_identity[identity] for identity in seqs])
                    assert [-seq for seq in receipts.seqs] == list(seqs.values()), f"seed {oracle.seed}: {image}"
                new = parse_envelope("power/cut", envelope_of("power/cut", "after the cut", None), 0)
                (seq,) = (await journal.append([new])).seqs
                assert seq > max(seqs.values(), default=0), f"seed {oracle.seed}: {image}"
            finally:
                await journal.close()


async def test_the_name_of_a_new_data_directory_is_synced_before_anything_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A synced file in a directory whose own name was never synced can be gone with the directory."""
    synced: list[Path] = []
    plain = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    journal = await Journal.open(tmp_path / "new" / "deep" / "data", JournalConfig(), ManualClock())
    await journal.close()
    assert {tmp_path, tmp_path / "new", tmp_path / "new" / "deep"} <= set(synced)

"""The file: settings that are read back, versions, damage, locks, and a disk that is full or fails."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from broker.clock import ManualClock
from edge import (
    DiskFull,
    Outbox,
    OutboxDamaged,
    OutboxFailed,
    OutboxUnavailable,
    OutboxUnusable,
    SettingsInvalid,
    limits,
    storage,
    writer,
)
from edge.clock import RELEASED_US
from edge.limits import RETRY_AFTER_SECONDS_MAX
from edge.schema import APPLICATION_ID, VERSION
from edge.store import DUE, FRESH, Attempt, LineState
from tests.adversity.conftest import small_disk  # noqa: F401 - a fixture
from tests.edge.conftest import OpenOutbox, event, ids, put_all


@contextmanager
def database(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()


def content(path: Path) -> bytes:
    return path.read_bytes()


def damage_file(path: Path, damage: bytes, offset: int = 0) -> None:
    with path.open("r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(damage)


async def test_the_settings_of_durability_are_on_when_they_are_read_back(outbox: Outbox) -> None:
    def settings(store: Any) -> list[Any]:
        return [store.connection.pragma(name) for name in ("journal_mode", "synchronous", "busy_timeout")]

    assert await outbox.read(settings) == ["wal", 2, 5000]


async def test_a_setting_that_does_not_take_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "SETTINGS", (("synchronous", "normal", 2),))
    with pytest.raises(OutboxUnusable, match="PRAGMA synchronous is 1, not 2"):
        await Outbox(path).open()


def test_an_sqlite_that_can_corrupt_a_wal_is_refused() -> None:
    storage.check_sqlite_version("3.51.3")
    with pytest.raises(OutboxUnusable, match="upgrade apsw"):
        storage.check_sqlite_version("3.51.2")


async def test_the_file_is_for_its_owner_alone_and_knows_its_version(outbox: Outbox, path: Path) -> None:
    assert os.stat(path).st_mode & 0o777 == 0o600  # noqa: PTH116 - at once, in a test
    with database(path) as connection:
        assert (connection.pragma("application_id"), connection.pragma("user_version")) == (APPLICATION_ID, VERSION)


async def test_a_newer_outbox_and_the_file_of_another_program_are_left_as_they_are(path: Path) -> None:
    async with Outbox(path):
        pass
    with database(path) as connection:
        connection.pragma("user_version", VERSION + 1)
    before = content(path)
    with pytest.raises(OutboxUnusable, match="newer Courier"):
        await Outbox(path).open()
    assert content(path) == before
    other = path.with_name("other.db")
    with database(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(OutboxUnusable, match="another program"):
        await Outbox(other).open()


@pytest.mark.parametrize("damage", [b"this is no database" * 100, b"SQLite format 3\x00" + b"\xff" * 4080])
async def test_a_damaged_file_is_refused_and_kept(path: Path, damage: bytes) -> None:
    damage_file(path, damage)
    with pytest.raises(OutboxUnusable, match=r"damaged|cannot be opened"):
        await Outbox(path).open()
    assert content(path) == damage


async def test_damage_that_shows_later_ends_in_refusals_and_never_in_a_false_receipt(path: Path) -> None:
    async with Outbox(path, device_id="pi-1") as outbox:
        for number in range(200):
            await outbox.put(event(f"evt_{number}", "x" * 500))
    damage_file(path, b"\xff" * 4096 * 20, offset=4096 * 3)
    outbox = Outbox(path, device_id="pi-1")
    try:
        await outbox.open()
        with pytest.raises(OutboxFailed):
            await put_all(outbox, *(f"new_{number}" for number in range(400)), size=500)
        assert outbox.failure is not None
        with pytest.raises(OutboxFailed):
            await outbox.put(event("one more"))
    except OutboxUnusable:
        pass  # it showed at once
    finally:
        await outbox.close()


async def test_a_put_waits_while_another_program_holds_the_file(outbox: Outbox, path: Path) -> None:
    with database(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        pending = asyncio.create_task(outbox.put(event("evt_1")))
        await asyncio.wait([pending], timeout=0.05)
        assert not pending.done()
        connection.execute("ROLLBACK")
        assert await pending == ("evt_1", False, False)


async def test_a_file_that_stays_locked_refuses_what_may_be_put_again(
    outbox: Outbox, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_BASE_SECONDS", 0.001)
    await outbox.read(lambda store: store.connection.set_busy_timeout(1))
    with database(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutboxUnavailable, match="try again"):
            await outbox.put(event("evt_1"))
        connection.execute("ROLLBACK")
    assert not (await outbox.put(event("evt_1"))).duplicate
    assert ids(path) == ["evt_1"]


async def test_a_full_disk_refuses_and_recovers_and_still_lets_rows_go(
    small_disk: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RESERVE_BYTES", 3 * limits.MIB)
    async with Outbox(small_disk / "outbox.db", device_id="pi-1") as outbox:
        with pytest.raises(DiskFull, match="no room") as refused:
            await put_all(outbox, *(f"evt_{number}" for number in range(10_000)), size=20_000)
        kept = refused.value.__notes__[0].split()
        assert ids(small_disk / "outbox.db") == kept
        assert await outbox.change(lambda store: store.acknowledge(kept[:100])) == 100
        await outbox.put(event("after", "x" * 20_000))
        assert ids(small_disk / "outbox.db") == [*kept[100:], "after"]
        assert outbox.failure is None
        assert (small_disk / "outbox.db.reserve").exists()


async def test_delays_survive_a_reboot_whatever_the_clock_says(open_outbox: OpenOutbox, path: Path) -> None:
    minute_us = 60_000_000
    for number, wall_us in enumerate((0, RELEASED_US, RELEASED_US * 2, RELEASED_US + minute_us)):
        clock = ManualClock(wall_us=RELEASED_US + 10 * minute_us)
        file = path.with_name(f"{number}.db")
        async with Outbox(file, device_id="pi-1", clock=clock) as outbox:
            await outbox.put(event("tried"))
            await outbox.put(event("fresh"))
            at = outbox.now_us() + minute_us
            await outbox.change(lambda store, at=at: store.reschedule([Attempt("tried", at, "cut")]))
            await outbox.change(lambda store, at=at: store.note_line(LineState(3, at, "cut")))
        async with Outbox(file, device_id="pi-1", clock=ManualClock(wall_us=wall_us)) as again:
            delay_us = await again.read(
                lambda store: (store.next_due_us(store.timeline.now_us()) or 0) - store.timeline.now_us()
            )
            line = await again.read(lambda store: store.line())
            if wall_us == RELEASED_US * 2:
                assert (
                    await again.read(lambda store: store.next_due_us(store.timeline.now_us())) is None
                )  # its time has long passed
            else:
                assert delay_us == minute_us
                assert line == (3, again.now_us() + minute_us, "cut")
            fresh = await again.read(lambda store: store.fresh(0, store.last_seq, 10, 1000))
            assert [row.event_id for row in fresh] == ["fresh"]


async def test_no_delay_outlives_its_cap(open_outbox: OpenOutbox, path: Path) -> None:
    async with Outbox(path, device_id="pi-1") as outbox:
        await outbox.put(event("evt_1"))
    with database(path) as connection:
        connection.execute("UPDATE outbox SET next_attempt_at = ?", (2**60,))
    outbox = await open_outbox()
    due_us = await outbox.read(lambda store: store.next_due_us(store.timeline.now_us()))
    assert due_us is not None
    assert due_us <= outbox.now_us() + RETRY_AFTER_SECONDS_MAX * 1_000_000


async def test_pages_come_from_an_index_and_are_never_sorted(outbox: Outbox) -> None:
    def plans(store: Any) -> list[str]:
        found = []
        for statement, values in ((FRESH, (0, 9, 1)), (DUE, (9, 0, 0, 1))):
            found += [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        return found

    for plan in await outbox.read(plans):
        assert "USING INDEX outbox_due" in plan
        assert "TEMP B-TREE" not in plan


async def test_a_damaged_file_is_set_aside_when_asked_for_and_what_can_be_read_is_taken_over(path: Path) -> None:
    async with Outbox(path, device_id="pi-1") as outbox:
        await put_all(outbox, *(f"evt_{number}" for number in range(400)), size=500)
    damage_file(path, b"\xff" * 4096 * 5, offset=4096 * 30)
    damage_file(Path(f"{path}.failed"), b"")
    async with Outbox(path, device_id="pi-1", when_damaged="set-aside") as outbox:
        taken_over = ids(path)
        assert 100 < len(taken_over) < 400
        assert outbox.depth == len(taken_over)
        assert "evt_0" in taken_over
        assert "evt_399" in taken_over
        await outbox.put(event("after"))
    (kept,) = [each for each in path.parent.glob("*.damaged-*") if not each.name.endswith(("-wal", "-shm"))]
    assert kept.name.startswith("listener_outbox.db.damaged-")


async def test_what_is_no_database_is_set_aside_too(path: Path) -> None:
    damage_file(path, b"no database" * 1000)
    async with Outbox(path, device_id="pi-1", when_damaged="set-aside") as outbox:
        assert outbox.depth == 0
        await outbox.put(event("evt_1"))
    with pytest.raises(SettingsInvalid, match="set-aside"):
        Outbox(path, when_damaged="explode")


async def test_after_a_failure_the_next_start_looks_at_the_whole_file_once(path: Path) -> None:
    async with Outbox(path, device_id="pi-1") as outbox:
        await put_all(outbox, *(f"evt_{number}" for number in range(400)), size=500)
    damage_file(Path(f"{path}.failed"), b"")
    async with Outbox(path, device_id="pi-1") as outbox:
        assert outbox.depth == 400
    assert not Path(f"{path}.failed").exists()  # noqa: ASYNC240 - at once, in a test
    damage_file(path, b"\xff" * 4096 * 5, offset=4096 * 30)
    damage_file(Path(f"{path}.failed"), b"")
    with pytest.raises(OutboxDamaged):
        await Outbox(path, device_id="pi-1").open()

"""What was put is on disk: shared commits, duplicates, lanes, bounds."""

import asyncio
from pathlib import Path

import pytest

from edge import Bounds, EventInvalid, Outbox, OutboxClosed, OutboxFull, OutboxInUse, SettingsInvalid
from edge.limits import JOBS_WAITING_MAX, OUTBOX_BYTES_MIN, ROW_BYTES_OVERHEAD
from edge.store import Attempt, Lane
from tests.edge.conftest import OpenOutbox, event, ids, put_all, rows


async def test_what_put_returned_for_is_in_the_file_with_the_documented_columns(outbox: Outbox, path: Path) -> None:
    receipt = await outbox.put(event("evt_1"))
    assert receipt == ("evt_1", False, False)
    columns = "event_id, payload_json, created_at, next_attempt_at, attempt_count, last_error, state"
    ((event_id, payload_json, created_at, *rest),) = rows(path, columns)
    assert event_id == "evt_1"
    assert payload_json.encode() == outbox.stamp.event(event("evt_1")).payload_json
    assert created_at == pytest.approx(outbox.now_us(), abs=60_000_000)
    assert rest == [0, 0, None, "waiting"]


async def test_concurrent_puts_share_commits(outbox: Outbox) -> None:
    commits = 0
    outbox.watchers.add(watch := asyncio.Event())

    async def count() -> None:
        nonlocal commits
        while True:
            await watch.wait()
            watch.clear()
            commits += 1

    counting = asyncio.create_task(count())
    await asyncio.gather(*(outbox.put(event(f"evt_{n}")) for n in range(500)))
    counting.cancel()
    assert outbox.depth == 500
    assert commits < 50


async def test_rows_keep_the_order_in_which_they_were_put(outbox: Outbox, path: Path) -> None:
    for number in (3, 1, 2):
        await outbox.put(event(f"evt_{number}"))
    assert ids(path) == ["evt_3", "evt_1", "evt_2"]


async def test_a_second_put_of_an_event_keeps_the_first(outbox: Outbox, path: Path) -> None:
    await outbox.put(event("evt_1"))
    assert await outbox.put(event("evt_1")) == ("evt_1", True, False)
    assert await outbox.put(event("evt_1", "other")) == ("evt_1", True, True)
    both = await asyncio.gather(outbox.put(event("evt_2")), outbox.put(event("evt_2")))
    assert sorted(receipt.duplicate for receipt in both) == [False, True]
    assert ids(path) == ["evt_1", "evt_2"]
    assert outbox.counts["default"].rows == 2


async def test_only_its_own_acknowledgement_deletes_a_row(outbox: Outbox, path: Path) -> None:
    for number in range(3):
        await outbox.put(event(f"evt_{number}"))
    assert await outbox.change(lambda store: store.acknowledge(["evt_1", "evt_1", "unknown"])) == 1
    assert ids(path) == ["evt_0", "evt_2"]
    assert outbox.counts["default"].acknowledged == 1


async def test_counts_survive_a_restart_without_counting(open_outbox: OpenOutbox) -> None:
    first = await open_outbox()
    for number in range(4):
        await first.put(event(f"evt_{number}"), lane="a" if number % 2 else "b")
    await first.change(lambda store: store.reschedule([Attempt("evt_0", 5, "no", rejected=True)]))
    await first.change(lambda store: store.acknowledge(["evt_1"]))
    await first.close()
    second = await open_outbox()
    assert {name: (lane.rows, lane.rejected, lane.acknowledged) for name, lane in second.counts.items()} == {
        "a": (1, 0, 1),
        "b": (2, 1, 0),
        "default": (0, 0, 0),
    }
    assert (second.depth, second.rejected, second.waiting) == (3, 1, 2)


async def test_a_full_outbox_refuses_and_has_room_again_after_an_acknowledgement(open_outbox: OpenOutbox) -> None:
    outbox = await open_outbox(bounds=Bounds(rows_max=2))
    await outbox.put(event("evt_1"))
    await outbox.put(event("evt_2"))
    with pytest.raises(OutboxFull, match="2 of 2 rows"):
        await outbox.put(event("evt_3"))
    assert (await outbox.put(event("evt_2"))).duplicate
    await outbox.change(lambda store: store.acknowledge(["evt_1"]))
    await outbox.put(event("evt_3"))
    assert outbox.depth == 2


async def test_bytes_are_bounded_to_the_byte(open_outbox: OpenOutbox, path: Path) -> None:
    probe = await open_outbox(path=path.with_name("probe.db"))
    size = len(probe.stamp.event(event("evt_1", "x" * 5000)).payload_json) + ROW_BYTES_OVERHEAD
    outbox = await open_outbox(bounds=Bounds(bytes_max=2 * size))
    await outbox.put(event("evt_1", "x" * 5000))
    with pytest.raises(OutboxFull):
        await outbox.put(event("evt_2", "x" * 5001))
    await outbox.put(event("evt_2", "x" * 5000))
    assert outbox.counts["default"].bytes == 2 * size


async def test_a_lane_that_may_drops_its_oldest_and_counts_them(open_outbox: OpenOutbox, path: Path) -> None:
    outbox = await open_outbox(bounds=Bounds(rows_max=5), lanes={"live": Bounds(rows_max=3, drop_oldest=True)})
    await outbox.put(event("kept"))
    for number in range(6):
        await outbox.put(event(f"live_{number}"), lane="live")
    assert ids(path) == ["kept", "live_3", "live_4", "live_5"]
    assert outbox.counts["live"] == Lane(3, outbox.counts["live"].bytes, dropped=3)
    with pytest.raises(OutboxFull, match="drops nothing"):
        await put_all(outbox, "more_0", "more_1", "more_2")
    assert ids(path) == ["kept", "live_3", "live_4", "live_5", "more_0"]


async def test_a_lane_never_drops_what_belongs_to_another(open_outbox: OpenOutbox, path: Path) -> None:
    outbox = await open_outbox(bounds=Bounds(rows_max=2), lanes={"live": Bounds(drop_oldest=True)})
    await outbox.put(event("evt_1"))
    await outbox.put(event("evt_2"))
    with pytest.raises(OutboxFull, match="not enough that it may drop"):
        await outbox.put(event("live_1"), lane="live")
    assert ids(path) == ["evt_1", "evt_2"]


async def test_a_large_event_drops_as_many_as_it_needs_and_none_in_vain(open_outbox: OpenOutbox, path: Path) -> None:
    outbox = await open_outbox(bounds=Bounds(bytes_max=OUTBOX_BYTES_MIN, drop_oldest=True))
    for number in range(8):
        await outbox.put(event(f"evt_{number}"))
    with pytest.raises(OutboxFull):
        await outbox.put(event("too_large", "x" * OUTBOX_BYTES_MIN))
    assert len(ids(path)) == 8
    await outbox.put(event("large", "x" * 2500))
    assert ids(path)[-1] == "large"
    lane = outbox.counts["default"]
    assert lane.bytes <= OUTBOX_BYTES_MIN
    assert lane.dropped == 8 - (lane.rows - 1) > 0


async def test_puts_past_what_may_wait_for_the_disk_wait_and_are_counted(outbox: Outbox) -> None:
    await asyncio.gather(*(outbox.put(event(f"evt_{n}")) for n in range(2 * JOBS_WAITING_MAX)))
    assert outbox.depth == 2 * JOBS_WAITING_MAX
    assert outbox.saturations > 0


async def test_one_process_has_an_outbox_at_a_time(outbox: Outbox, path: Path) -> None:
    with pytest.raises(OutboxInUse, match="has this outbox open"):
        async with Outbox(path):
            pass
    await outbox.put(event("evt_1"))


async def test_a_closed_outbox_takes_nothing(path: Path) -> None:
    outbox = Outbox(path, device_id="pi-1")
    with pytest.raises(OutboxClosed):
        await outbox.put(event("evt_1"))
    async with outbox:
        pending = asyncio.create_task(outbox.put(event("evt_2")))
        await asyncio.sleep(0)
    await pending
    with pytest.raises(OutboxClosed):
        await outbox.put(event("evt_3"))
    assert ids(path) == ["evt_2"]


async def test_what_is_no_event_or_no_lane_changes_nothing(outbox: Outbox, path: Path) -> None:
    with pytest.raises(EventInvalid):
        await outbox.put({"type": "t"})
    with pytest.raises(SettingsInvalid, match="lane"):
        await outbox.put(event("evt_1"), lane="")
    assert ids(path) == []


@pytest.mark.parametrize("bounds", [Bounds(rows_max=0), Bounds(bytes_max=OUTBOX_BYTES_MIN - 1), Bounds(rows_max=10**9)])
def test_bounds_out_of_bounds_are_refused(bounds: Bounds, path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="may hold"):
        Outbox(path, bounds=bounds)

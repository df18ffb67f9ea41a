"""An outbox that is carried by hand: export on the device, import at the broker, twice if need be."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge import Outbox
from edge.store import Attempt
from tests.edge.conftest import event, ids, rows
from tests.edge.processes import courier_edge
from tests.edge.reference_server import ReferenceServer
from tests.support.process import courier


class InThread:
    """The reference server beside a test that waits for processes."""

    def __init__(self, inbox: Path) -> None:
        self._inbox = inbox
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.server: ReferenceServer

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with ReferenceServer(self._inbox) as self.server:
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> ReferenceServer:
        self._thread.start()
        assert self._ready.wait(30)
        return self.server

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReferenceServer]:
    with InThread(tmp_path / "inbox.db") as server:
        yield server


def filled(path: Path, count: int) -> dict[str, bytes]:
    """An outbox with so many events; what must arrive."""

    async def fill() -> dict[str, bytes]:
        async with Outbox(path, device_id="pi-1") as outbox:
            given = [outbox.stamp.event(event(f"evt_{number}", number)) for number in range(count)]
            await asyncio.gather(*(outbox.put_event(each) for each in given))
            return dict(given)

    return asyncio.run(fill())


def test_what_is_carried_arrives_once_with_identical_bytes_however_often(
    tmp_path: Path, path: Path, server: ReferenceServer
) -> None:
    sent = filled(path, 1200)
    file = tmp_path / "stick.ndjson"
    exported = courier_edge("export", str(file), "--path", str(path))
    assert (exported.returncode, exported.stdout.decode()) == (0, f"{file}: 1200 events\n")
    assert file.read_bytes().splitlines() == list(sent.values())
    assert len(ids(path)) == 1200
    first = courier("import", str(file), "--url", server.http_url)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == {"file": str(file), "stored": 1200, "duplicates": 0, "refused": 0}
    again = courier("import", str(file), "--url", server.http_url)
    assert json.loads(again.stdout) == {"file": str(file), "stored": 0, "duplicates": 1200, "refused": 0}
    assert server.stored() == sent
    assert max(server.batches) == 500


def test_a_file_that_was_cut_short_gives_what_it_has_and_says_what_it_lacks(
    tmp_path: Path, path: Path, server: ReferenceServer
) -> None:
    filled(path, 3)
    file = tmp_path / "stick.ndjson"
    courier_edge("export", str(file), "--path", str(path))
    file.write_bytes(file.read_bytes()[:-20])
    done = courier("import", str(file), "--url", server.http_url)
    assert (done.returncode, b"line 3 is refused: it is not JSON" in done.stderr) == (65, True)
    assert server.stored().keys() == {"evt_0", "evt_1"}


def test_a_refused_event_does_not_keep_the_others_away(tmp_path: Path, path: Path, server: ReferenceServer) -> None:
    filled(path, 5)
    file = tmp_path / "stick.ndjson"
    courier_edge("export", str(file), "--path", str(path))
    server.refuse = lambda given: (
        {"code": "invalid_envelope", "message": "no"} if given["event_id"] == "evt_2" else None
    )
    done = courier("import", str(file), "--url", server.http_url)
    assert (done.returncode, b"line 3 is refused: invalid_envelope: no" in done.stderr) == (65, True)
    assert len(server.stored()) == 4


def test_what_the_broker_cannot_take_now_is_posted_again(tmp_path: Path, path: Path, server: ReferenceServer) -> None:
    sent = filled(path, 5)
    file = tmp_path / "stick.ndjson"
    courier_edge("export", str(file), "--path", str(path))
    asked = []

    def slowly(given: dict[str, object]) -> dict[str, object] | None:
        asked.append(given["event_id"])
        return {"code": "saturated", "message": "wait", "retryable": True} if len(asked) <= 2 else None

    server.refuse = slowly
    done = courier("import", str(file), "--url", server.http_url)
    assert done.returncode == 0, done.stderr
    assert server.stored() == sent
    assert len(asked) == 7


@pytest.mark.parametrize("html", [True, False])
def test_what_is_no_broker_is_said(html: bool, tmp_path: Path, path: Path, server: ReferenceServer) -> None:
    filled(path, 1)
    file = tmp_path / "stick.ndjson"
    courier_edge("export", str(file), "--path", str(path))
    if html:
        server.html = True
        done = courier("import", str(file), "--url", server.http_url)
        assert (done.returncode, b"no broker" in done.stderr) == (69, True)
    else:
        unauthorized = b'{"error":{"code":"unauthorized","message":"who","retryable":false}}'
        server.status = (401, {}, unauthorized)
        done = courier("import", str(file), "--url", server.http_url)
        assert (done.returncode, b"unauthorized" in done.stderr) == (65, True)


def test_an_export_overwrites_nothing_and_leaves_nothing_half_done(tmp_path: Path, path: Path) -> None:
    filled(path, 1)
    file = tmp_path / "stick.ndjson"
    file.write_text("mine")
    refused = courier_edge("export", str(file), "--path", str(path))
    assert (refused.returncode, b"exists already" in refused.stderr) == (1, True)
    assert file.read_text() == "mine"
    nowhere = courier_edge("export", str(tmp_path / "no" / "where"), "--path", str(path))
    assert nowhere.returncode == 1
    assert [each.name for each in tmp_path.iterdir() if "part" in each.name] == []


def test_refused_events_are_listed_retried_and_dropped(path: Path) -> None:
    filled(path, 4)

    async def refuse() -> None:
        async with Outbox(path, device_id="pi-1") as outbox:
            attempts = [Attempt(f"evt_{number}", outbox.now_us() + 10**9, "no", rejected=True) for number in (0, 1, 3)]
            await outbox.change(lambda store: store.reschedule(attempts))

    asyncio.run(refuse())
    where = ("--path", str(path), "--config", "/dev/null")
    listed = [json.loads(line) for line in courier_edge("rejected", "list", *where).stdout.splitlines()]
    assert [(row["event_id"], row["attempt_count"], row["last_error"]) for row in listed] == [
        ("evt_0", 1, "no"), ("evt_1", 1, "no"), ("evt_3", 1, "no"),
    ]  # fmt: skip
    assert len(courier_edge("rejected", "list", "--limit", "1", *where).stdout.splitlines()) == 1
    assert courier_edge("rejected", "retry", *where).returncode == 65
    unknown = courier_edge("rejected", "drop", "evt_2", *where)
    assert (unknown.returncode, unknown.stdout) == (1, b"0\n")
    assert courier_edge("rejected", "drop", "evt_0", *where).stdout == b"1\n"
    assert courier_edge("rejected", "retry", "--all", *where).stdout == b"2\n"
    assert rows(path, "event_id, state, next_attempt_at") == [
        ("evt_1", "waiting", 0), ("evt_2", "waiting", 0), ("evt_3", "waiting", 0),
    ]  # fmt: skip

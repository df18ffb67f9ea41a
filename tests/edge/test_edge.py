"""The library: what is exported, programs without asyncio, TLS with a private CA, the share of new events."""

import asyncio
import hashlib
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver

import edge
from edge import Edge, OutboxClosed, OutboxUnusable, Pace, SettingsInvalid, SyncEdge
from edge.clock import SystemClock
from edge.feed import Positions, pick
from edge.limits import LIVE_ROWS_MAX
from edge.lines import Target
from edge.outbox import Outbox
from edge.sender import Sender
from edge.store import Store
from tests.adversity.conftest import until
from tests.adversity.edge_device import Proxy
from tests.conftest import StartApp
from tests.edge.conftest import event, ids
from tests.edge.reference_server import ReferenceServer
from tests.edge.test_carrying import InThread
from tests.edge.test_sender import PACE, drained, put


def test_the_package_exports_what_it_documents_and_needs_nothing_compiled() -> None:
    assert {"Edge", "Outbox", "SyncEdge", "Bounds", "Pace", "Backoff"} <= set(edge.__all__)
    unwanted = ("_fast", "uvloop", "msgspec", "click", "yaml", "broker")
    code = f"import sys, edge, edge.cli; print([name for name in {unwanted} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_program_without_asyncio_puts_from_any_thread(tmp_path: Path, path: Path) -> None:
    with InThread(tmp_path / "inbox.db") as server:
        with SyncEdge(server.url, path=path, device_id="pi-1", pace=PACE) as sync:
            threads = [
                threading.Thread(target=lambda n=n: [sync.put(event(f"evt_{n}_{i}")) for i in range(20)])
                for n in range(5)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            sync.drained(timeout=30)
            assert sync.status().acknowledged == 100
        assert len(server.stored()) == 100
    with pytest.raises(OutboxClosed):
        sync.put(event("evt_late"))


def test_an_outbox_that_cannot_be_opened_is_an_error_and_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").write_bytes(b"no database" * 1000)
    with pytest.raises(OutboxUnusable), SyncEdge("ws://127.0.0.1:1", path=tmp_path / "outbox.db"):
        pass
    with SyncEdge("ws://127.0.0.1:1", path=tmp_path / "good.db", device_id="pi-1") as sync:
        sync.put(event("evt_1"))
        with pytest.raises(TimeoutError):
            sync.drained(timeout=0.05)


@pytest.mark.parametrize(
    "url", ["", "broker", "ftp://x", "http://", "ws://x:0", "ws://x:99999", "http://u:p@x", "ws://x/?a=1"]
)
def test_a_url_that_is_none_is_refused_at_once(url: str, path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="is not a URL"):
        Edge(url, path=path)


def test_a_url_without_a_path_gets_the_one_of_its_kind() -> None:
    assert Target("ws://x:1").address == "ws://x:1/v1/ingress"
    assert Target("https://x/").address == "https://x/v1/events"
    assert Target("http://x/proxy/events").address == "http://x/proxy/events"
    assert "secret" not in repr(Target("ws://x", "secret"))


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A private CA, and a certificate of 127.0.0.1 that it has signed."""
    commands = [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-ca",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=127.0.0.1",
    ]
    (tmp_path / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    commands.append(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out server.pem"
    )
    for command in commands:
        subprocess.run(["openssl", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.parametrize("transport", ["websocket", "http"])
async def test_a_private_ca_is_believed_when_it_is_named_and_only_then(
    transport: str, certificates: Path, path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    async with ReferenceServer(certificates / "inbox.db", tls=context) as server:
        url = server.url if transport == "websocket" else server.http_url
        async with Edge(url, path=path, device_id="pi-1", pace=PACE) as stranger:
            sent = await put(stranger, 10)
            await until(lambda: stranger.sender.failures >= 2, "the certificate is not believed")
            assert "certificate" in str(stranger.sender.last_error)
        assert server.stored() == {}
        async with Edge(url, path=path, device_id="pi-1", pace=PACE, ca_file="/nowhere.pem") as lost:
            await until(lambda: "no certificates" in str(lost.sender.last_error), "the file is missed")
        async with Edge(url, path=path, device_id="pi-1", pace=PACE, ca_file=certificates / "ca.pem") as friend:
            await drained(friend)
        assert server.stored() == sent
        assert ids(path) == []


async def picks(outbox: Outbox, share: float, count: int, at: Positions) -> tuple[list[str], Positions]:
    picked = await outbox.read(lambda store: pick(store, at, share, count, 1_000_000, frozenset()))
    return [row.event_id for row in picked.rows], picked.positions


@pytest.mark.parametrize(("share", "new"), [(0.0, 0), (0.25, 5), (0.5, 10), (1.0, 20)])
async def test_new_events_get_their_share_of_the_places_beside_a_backlog(
    share: float, new: int, outbox: Outbox
) -> None:
    await asyncio.gather(*(outbox.put(event(f"old_{number}")) for number in range(50)))
    first, at = await picks(outbox, share, 1, Positions())
    assert first == ["old_0"]
    await asyncio.gather(*(outbox.put(event(f"new_{number}")) for number in range(50)))
    found: list[str] = []
    for size in (1, 2, 3, 4, 10):
        rows, at = await picks(outbox, share, size, at)
        found += rows
    assert sum(each.startswith("new") for each in found) == pytest.approx(new, abs=1)
    assert [each for each in found if each.startswith("old")] == [f"old_{n + 1}" for n in range(20 - _new(found))]
    assert [each for each in found if each.startswith("new")] == [f"new_{n}" for n in range(_new(found))]
    rest, _ = await picks(outbox, share, 1000, at)
    assert len(set(found) | set(rest)) == 99


def _new(found: list[str]) -> int:
    return sum(each.startswith("new") for each in found)


async def test_new_events_that_pile_up_are_a_backlog_themselves(outbox: Outbox) -> None:
    await outbox.put(event("first"))
    _, at = await picks(outbox, 0.5, 1, Positions())
    for start in range(0, LIVE_ROWS_MAX + 1, 500):
        await asyncio.gather(*(outbox.put(event(f"evt_{number}")) for number in range(start, start + 500)))
    rows, at = await picks(outbox, 0.5, 2, at)
    assert rows == ["evt_0", "evt_1"]
    await outbox.put(event("now"))
    rows, at = await picks(outbox, 0.5, 2, at)
    assert "now" in rows


async def test_bytes_bound_a_pick_but_never_to_nothing(outbox: Outbox) -> None:
    for number in range(3):
        await outbox.put(event(f"evt_{number}", "x" * 1000))

    def small(store: Store) -> list[str]:
        return [row.event_id for row in pick(store, Positions(), 0.5, 10, 1500, frozenset()).rows]

    assert await outbox.read(small) == ["evt_0"]


def test_a_pace_out_of_bounds_is_refused() -> None:
    for bad in ({"window": 0}, {"window": 10_001}, {"new_share": -0.1}, {"new_share": 1.1}):
        with pytest.raises(SettingsInvalid):
            Pace(**bad)


class Moving(AbstractResolver):
    """A name server whose one name moves."""

    address = "127.0.0.1"

    def __init__(self, **_options: Any) -> None:
        super().__init__()

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        flags = {"family": socket.AF_INET, "proto": 0, "flags": socket.AI_NUMERICHOST}
        return [{"hostname": host, "host": self.address, "port": port, **flags}]

    async def close(self) -> None:
        return None


async def test_a_broker_that_moved_to_another_address_is_found(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiohttp.connector, "DefaultResolver", Moving)
    async with (
        ReferenceServer(tmp_path / "old.db") as old,
        Edge(f"ws://broker.example:{old.port}", path=path, device_id="pi-1", pace=PACE) as edge,
    ):
        first = await put(edge, 5, "before")
        await drained(edge)
        assert old.stored() == first
        await old.stop()
        monkeypatch.setattr(Moving, "address", "127.0.0.2")
        async with ReferenceServer(tmp_path / "new.db", host="127.0.0.2", port=old.port) as new:
            second = await put(edge, 5, "after")
            await drained(edge)
            assert new.stored() == second


async def test_a_line_that_fails_in_a_way_that_nobody_thought_of_does_not_stop_the_sender(
    tmp_path: Path, path: Path
) -> None:
    async with (
        ReferenceServer(tmp_path / "inbox.db") as server,
        Edge(server.url, path=path, device_id="pi-1", pace=PACE) as edge,
    ):
        plain, failures = edge.sender.line, iter(range(3))

        def odd() -> Any:
            line = plain()
            if next(failures, None) is not None:
                line.open = lambda: 1 / 0
            return line

        edge.sender.line = odd
        sent = await put(edge, 5)
        await drained(edge)
        assert server.stored() == sent
        assert next(failures, None) is None


async def test_an_idle_line_that_went_dead_is_noticed_by_its_pings(tmp_path: Path, path: Path) -> None:
    async with ReferenceServer(tmp_path / "inbox.db") as server, Outbox(path, device_id="pi-1") as outbox:
        proxy = Proxy(server.port)
        await proxy.start()
        target = Target(proxy.url, ping_seconds=0.2)
        sending = asyncio.create_task(Sender(outbox, target.line, PACE).run())
        try:
            await outbox.put(event("evt_1"))
            await until(lambda: outbox.depth == 0, "the line works")
            proxy.swallow_answers = True
            await until(lambda: proxy.connections >= 1 and not proxy.open, "the dead line is let go")
            proxy.swallow_answers = False
            await outbox.put(event("evt_2"))
            await until(lambda: outbox.depth == 0, "there is a new line")
            assert server.stored().keys() == {"evt_1", "evt_2"}
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await proxy.close()


class Wrong(SystemClock):
    """A clock whose wall time is somewhere else, and may be moved."""

    def __init__(self, wall_us: int) -> None:
        self.wall = wall_us

    def wall_us(self) -> int:
        return self.wall


async def test_no_clock_stalls_the_sender_in_a_run_or_across_reboots(tmp_path: Path, path: Path) -> None:
    """A Pi that boots in 1970, in the future, and in 1970 again, and whose clock jumps while it sends."""
    year_us = 366 * 24 * 3600 * 1_000_000
    async with ReferenceServer(tmp_path / "inbox.db") as server:
        sent: dict[str, bytes] = {}
        for life, years in enumerate((0, 57, 130, 0, 57, 56)):
            clock = Wrong(years * year_us)
            async with Edge(server.url, path=path, device_id="pi-1", pace=PACE, clock=clock) as edge:
                sent |= await put(edge, 20, f"life_{life}")
                clock.wall = (years + 30) * year_us
                await server.stop()
                sent |= await put(edge, 20, f"dark_{life}")
                await until(lambda edge=edge: edge.sender.failures >= 2, "nobody is there")
                clock.wall = 0
                await server.start()
                if life % 2:
                    await drained(edge)
                    assert server.stored() == sent
                assert (await edge.status()).oldest_seconds in (None, pytest.approx(0, abs=60 * 366 * 24 * 3600))
        async with Edge(server.url, path=path, device_id="pi-1", pace=PACE) as edge:
            await drained(edge)
        assert server.stored() == sent


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_broker_that_asks_for_a_token_gets_it_and_keeps_a_device_to_its_own_name(
    scheme: str, start_app: StartApp, path: Path
) -> None:
    token = {"name": "pi", "tokenHash": f"sha256:{hashlib.sha256(b'secret').hexdigest()}", "scopes": ["devices:pi-1"]}
    app = await start_app({"auth": {"tokens": [token]}})
    url = app.server.address.replace("http", scheme)
    async with Edge(url, path=path, device_id="pi-1", pace=PACE) as nobody:
        await put(nobody, 5)
        await until(lambda: "401" in str(nobody.sender.last_error), "it is turned away")
        assert nobody.outbox.waiting == 5
    pace = Pace(retry=PACE.retry, connect=PACE.connect)
    async with Edge(url, path=path, device_id="pi-1", token="secret", pace=pace) as known:
        await known.put({**event("evt_other"), "device_id": "pi-2"})
        await drained(known)
        assert (known.outbox.rejected, ids(path)) == (1, ["evt_other"])

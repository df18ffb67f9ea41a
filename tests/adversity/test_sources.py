"""kill -9 of a broker that pulls: what its servers gave is in the ledger, all of it, once, and behind the cursor."""

import asyncio
import json
import random
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from aiohttp import web

from tests.adversity.conftest import SEED, TORTURE, StartBroker
from tests.support.upstream import Upstream, item, rest, serving, until, websocket

KILLS = 100 if TORTURE else 3
ITEMS = 1_200
PACE_SECONDS = 0.001
"""Between the frames of the server: it is one that has its events as they happen."""
SYNCS = range(5, 60, 3) if TORTURE else (24, 31)


def unhurried() -> Upstream:
    """A server that gives its items a few at a time, so that there is a middle to be killed in."""
    upstream = Upstream()
    upstream.page = 40
    upstream.add(*(item(number) for number in range(1, ITEMS + 1)))

    async def feed(request: web.Request, socket: web.WebSocketResponse) -> None:
        for raw in upstream.items[int(request.query.get("after") or 0) :]:
            if request.transport is None:
                return
            await socket.send_bytes(raw)
            await asyncio.sleep(PACE_SECONDS)
        await socket.receive()

    upstream.talk = feed
    return upstream


def has_cursor(database: Path, number: int) -> bool:
    """Whether the cursor on disk has come so far."""
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(1000)
        return int(connection.execute("SELECT cursor FROM source_checkpoints").get or 0) >= number


def found(database: Path) -> tuple[list[str], int, int]:
    """The ids in the ledger, the number of the cursor, and how far the items before it go without a gap."""
    with closing(apsw.Connection(str(database))) as connection:
        ids = [event_id for (event_id,) in connection.execute("SELECT source_event_id FROM ledger").fetchall()]
        cursor = connection.execute("SELECT cursor FROM source_checkpoints").get
    numbers = {int(event_id.removeprefix("w-")) for event_id in ids}
    whole = next(number for number in range(1, ITEMS + 2) if number not in numbers) - 1
    return ids, int(cursor or 0), whole


@pytest.mark.parametrize("kind", ["rest", "websocket"])
async def test_a_kill_at_any_moment_loses_no_item_and_takes_none_twice(
    start_broker: StartBroker, tmp_path: Path, kind: str
) -> None:
    rng = random.Random(SEED)
    async with serving(unhurried()) as upstream:
        source: dict[str, Any] = rest(upstream) if kind == "rest" else websocket(upstream)
        settings = {f"COURIER_SOURCES__{kind.upper()}": json.dumps([source])}
        last = 0
        for _ in range(KILLS):
            broker = await start_broker(tmp_path / "data", settings=settings)
            wanted = min(last + rng.randint(1, ITEMS // KILLS), ITEMS - 1)
            await until(partial(has_cursor, broker.database, wanted))
            await broker.kill()
            ids, cursor, whole = found(broker.database)
            assert len(ids) == len(set(ids))
            assert last <= cursor <= whole, f"seed {SEED}: the cursor is {cursor}, but {whole + 1} is not there"
            last = cursor
        broker = await start_broker(tmp_path / "data", settings=settings)
        await until(partial(has_cursor, broker.database, ITEMS))
        await broker.stop()
    ids, cursor, whole = found(broker.database)
    assert (len(ids), cursor, whole) == (ITEMS, ITEMS, ITEMS)


@pytest.mark.parametrize("sync", SYNCS)
async def test_a_kill_at_a_sync_loses_no_item_and_takes_none_twice(
    start_broker: StartBroker, tmp_path: Path, sync: int
) -> None:
    """The process dies inside the system call, before or behind what makes a commit durable."""
    async with serving(unhurried()) as upstream:
        settings = {"COURIER_SOURCES__REST": json.dumps([rest(upstream)])}
        fault = ["-e", f"inject=fsync,fdatasync:signal=KILL:when={sync}"]
        broker = await start_broker(tmp_path / "data", strace=fault, settings=settings)
        assert await broker.ended() == -9, broker.errors
        ids, cursor, whole = found(broker.database)
        assert (len(ids), cursor <= whole) == (len(set(ids)), True)
        assert cursor < ITEMS, "else it died too late to show anything"
        broker = await start_broker(tmp_path / "data", settings=settings)
        await until(partial(has_cursor, broker.database, ITEMS))
        await broker.stop()
    assert found(broker.database)[1:] == (ITEMS, ITEMS)

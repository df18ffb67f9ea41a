"""Effects: exactly once with their event, or neither of the two (001, steps 6 to 9)."""

import asyncio
import logging
import threading
from typing import Any

import aiohttp
import apsw
import pytest

from broker.app import App
from broker.contracts.inbound import InboundEvent
from tests.conftest import Connect, StartApp, StartBroker
from tests.support.client import Client
from tests.support.pixel import assert_unavailable, disposition, key, numbered, post
from tests.support.writer import eventually, held_writer, stored

HEARTBEAT = "connectivity.plugin_heartbeat"


async def count(app: App, table: str = "seen") -> list[Any]:
    return await app.journal.execute(lambda c: [row[0] for row in c.execute(f"SELECT * FROM {table} ORDER BY 1")])


@pytest.fixture
async def seen(app: App) -> App:
    """A broker with a table, into which an effect writes the sequence of each lifecycle event."""
    await app.journal.execute(lambda c: c.execute("CREATE TABLE seen (n)"))

    @app.effect("pixel_control.lifecycle.*")
    def note(cursor: apsw.Cursor, event: InboundEvent) -> None:
        cursor.execute("INSERT INTO seen VALUES (?)", (event.source_sequence,))

    return app


async def test_an_effect_runs_once_for_a_new_event_and_never_for_a_duplicate(seen: App, client: Client) -> None:
    found = await asyncio.gather(*(disposition(client, numbered(n)) for n in (1, 2, 1, 2, 1)))
    assert sorted(found) == ["duplicate"] * 3 + ["processed"] * 2
    assert await disposition(client, numbered(1)) == "duplicate"
    assert await count(seen) == [1, 2]


async def test_an_effect_is_for_the_types_of_its_pattern_and_for_its_contract_only(seen: App, client: Client) -> None:
    assert await disposition(client, numbered(1, "player.on_connect")) == "processed"
    await client.enqueue("e-1", to="pixel/lifecycle", type="pixel_control.lifecycle.maniaplanet_beginmatch")
    assert await count(seen) == []


async def test_a_failing_effect_takes_its_own_event_out_and_no_other(
    seen: App, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    failing = {2}

    @seen.effect("pixel_control.*")
    def fail(cursor: apsw.Cursor, event: InboundEvent) -> None:
        cursor.execute("INSERT INTO seen VALUES (-1)")
        if event.source_sequence in failing:
            raise ValueError("no such match")

    async with held_writer(seen):
        posts = []
        for n in (1, 2, 2, 3):
            posts.append(asyncio.create_task(post(client, numbered(n))))
            await eventually(lambda: seen.journal.queued == len(posts))
    answers = await asyncio.gather(*posts)
    assert [answer.status for answer in answers] == [200, 503, 503, 200]
    for refused in answers[1:3]:  # the duplicate in the same batch is as little stored as its original
        assert "effect" in assert_unavailable(refused)
    assert await stored(seen) == [key(1), key(3)]
    assert await count(seen) == [-1, -1, 1, 3]
    assert seen.journal.effects.failures == 1
    assert [record.levelno for record in caplog.records if "effects failed" in record.message] == [logging.ERROR]
    async with client.subscribe("pixel/lifecycle") as subscriber:
        await subscriber.credit(10)
        sent = [(await subscriber.delivery())["deliver"]["idempotency_key"] for _ in range(2)]
        assert sent == [key(1), key(3)]
        await subscriber.settled()
    failing.clear()
    assert await disposition(client, numbered(2)) == "processed", "it was not recorded as seen"
    assert await count(seen) == [-1, -1, -1, 1, 2, 3]


async def test_an_effect_with_bad_sql_fails_alone(seen: App, client: Client) -> None:
    @seen.effect("*")
    def bad(cursor: apsw.Cursor, _event: InboundEvent) -> None:
        cursor.execute("INSERT INTO nowhere VALUES (1)")

    assert_unavailable(await post(client, numbered(1)))
    await client.enqueue("e-1")
    assert await stored(seen) == ["e-1"]
    assert await count(seen) == []


async def test_sequences_of_events_that_were_taken_out_are_not_given_twice(seen: App, client: Client) -> None:
    @seen.effect("pixel_control.mode.*")
    def fail(_cursor: apsw.Cursor, _event: InboundEvent) -> None:
        raise ValueError("never")

    assert_unavailable(await post(client, numbered(1, "mode.elite_startturn")))
    assert (await client.enqueue("e-1"))["seq"] == 2


async def test_effects_run_again_when_the_commit_is_tried_again_and_count_once(
    seen: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    @seen.effect("pixel_control.lifecycle.*")
    def locked_once(cursor: apsw.Cursor, event: InboundEvent) -> None:
        calls.append(event.source_sequence or 0)
        if len(calls) == 1:
            raise apsw.BusyError("database is locked")

    monkeypatch.setattr(apsw.BusyError, "extendedresult", apsw.SQLITE_BUSY, raising=False)
    assert await disposition(client, numbered(1)) == "processed"
    assert calls == [1, 1]
    assert await count(seen) == [1]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_an_effect_that_ends_the_transaction_stops_the_broker(end: str, app: App, client: Client) -> None:
    @app.effect("*")
    def rude(cursor: apsw.Cursor, _event: InboundEvent) -> None:
        cursor.execute(end)

    assert_unavailable(await post(client, numbered(1)))
    assert app.failed.is_set()


async def test_an_effect_runs_on_the_thread_of_the_writer(app: App, client: Client) -> None:
    threads: list[str] = []

    @app.effect("*")
    def note(_cursor: apsw.Cursor, _event: InboundEvent) -> None:
        threads.append(threading.current_thread().name)

    await disposition(client, numbered(1))
    assert threads == ["courier-writer"]


LOGIN = {"X-Pixel-Server-Login": "stadium-1", "X-Pixel-Plugin-Version": "1.0.0"}
SERVERS = "dedupe_scope, server_login, plugin_version, registration_sequence, heartbeat_sequence"


async def servers(app: App) -> list[Any]:
    return await app.journal.execute(lambda c: list(c.execute(f"SELECT {SERVERS} FROM pixel_servers ORDER BY 1, 2")))


async def test_the_last_registration_and_heartbeat_of_each_server_are_noted(app: App, client: Client) -> None:
    await disposition(client, numbered(1, "connectivity.plugin_registration", source_time=100), LOGIN)
    await disposition(client, numbered(2, HEARTBEAT, source_time=110), LOGIN | {"X-Pixel-Plugin-Version": "1.0.1"})
    await disposition(client, numbered(4, HEARTBEAT, source_time=130), LOGIN)
    await disposition(client, numbered(3, HEARTBEAT, source_time=120), LOGIN)  # late
    await disposition(client, numbered(5, HEARTBEAT, source_time=140), {"X-Pixel-Server-Login": "other"})
    await disposition(client, numbered(6, HEARTBEAT, source_time=150))  # of nobody
    assert await servers(app) == [("local", "other", None, None, 5), ("local", "stadium-1", "1.0.0", 1, 4)]


async def test_a_plugin_that_counts_from_one_again_is_followed_by_its_time(app: App, client: Client) -> None:
    await disposition(client, numbered(900, HEARTBEAT, source_time=100), LOGIN)
    await disposition(client, numbered(1, HEARTBEAT, source_time=200), LOGIN)
    assert await servers(app) == [("local", "stadium-1", "1.0.0", None, 1)]


async def test_two_principals_have_servers_of_their_own(start_app: StartApp, connect: Connect) -> None:
    tokens = [{"name": name, "token": name, "scopes": ["streams:pixel/*:enqueue"]} for name in "ab"]
    app = await start_app({"auth": {"tokens": tokens}})
    client = await connect(app.server.address)
    for name in "ab":
        headers = LOGIN | {"Authorization": f"Bearer {name}"}
        assert await disposition(client, numbered(1, HEARTBEAT), headers) == "processed"
    assert [row[0] for row in await servers(app)] == ["a", "b"]


async def test_a_kill_leaves_an_event_with_its_effect_or_neither(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process()
    client = await connect(broker.url)

    async def send(n: int) -> int | None:
        headers = {"X-Pixel-Server-Login": f"server-{n}"}
        try:
            await disposition(client, numbered(n, HEARTBEAT), headers)
        except aiohttp.ClientError:
            return None
        return n

    posts = [asyncio.create_task(send(n)) for n in range(1, 301)]
    await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
    broker.kill()
    acknowledged = {n for n in await asyncio.gather(*posts) if n is not None}
    assert acknowledged
    connection = apsw.Connection(str(broker.data / "courier.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        events = {row[0] for row in connection.execute("SELECT source_sequence FROM ledger")}
        effects = {row[0] for row in connection.execute("SELECT heartbeat_sequence FROM pixel_servers")}
    finally:
        connection.close()
    assert events == effects
    assert acknowledged <= events

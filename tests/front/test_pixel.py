"""`POST /plugin/events`: one receipt for one key, whatever is sent however often (001)."""

import asyncio
import gzip
import json
import resource
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker.app import App
from broker.clock import ManualClock
from broker.contracts.pixel import dedupe_key
from broker.contracts.pixel_schemas import PixelSchemas
from tests.conftest import Connect, StartApp, StartBroker
from tests.support import ledger
from tests.support.client import Client
from tests.support.golden import rejections
from tests.support.pixel import KEY, TRANSPORT, assert_unavailable, disposition, key, numbered, post, request
from tests.support.writer import eventually, held_writer, stored

EVENT = "pixel_control.lifecycle.maniaplanet_beginmatch"


async def refused_with(client: Client, body: Any, headers: dict[str, str] | None = None) -> str:
    answer = await post(client, body, headers)
    assert (answer.status, answer.body["ack"]["status"]) == (200, "rejected"), answer
    assert answer.body["ack"]["retryable"] is False
    code: str = answer.body["ack"]["code"]
    return code


async def receipt_rows(app: App) -> list[Any]:
    columns = "dedupe_key, dedupe_scope, idempotency_key, event_id, event_name, schema_version, duplicate_count"

    def job(connection: Any) -> list[Any]:
        sql = f"SELECT {columns}, last_transport_attempt, status FROM receipts ORDER BY first_seen_at, status"
        return list(connection.execute(sql))

    return await app.journal.execute(job)


POSTS = 1000


@pytest.fixture
def _room_for_sockets() -> Iterator[None]:
    """Both ends of a thousand connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * POSTS + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{wanted} descriptors are needed, and {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_room_for_sockets")
async def test_a_thousand_posts_of_one_key_at_once_are_one_receipt_and_exactly_one_is_processed(
    app: App, connect: Connect
) -> None:
    client = await connect(app.server.address, connector=aiohttp.TCPConnector(limit=0))
    async with held_writer(app):
        posts = [asyncio.create_task(disposition(client, request({"attempt": 1 + n}))) for n in range(POSTS)]
        await eventually(lambda: app.journal.queued == POSTS)
    found = await asyncio.gather(*posts)
    assert sorted(found) == ["duplicate"] * (POSTS - 1) + ["processed"]
    ((*_, duplicates, attempt, status),) = await receipt_rows(app)
    assert (duplicates, status) == (POSTS - 1, "processed")
    assert 1 <= attempt <= POSTS
    assert await stored(app) == [KEY]


async def test_a_key_is_known_after_a_restart_and_after_a_kill(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    assert [await disposition(client, numbered(n)) for n in (1, 2)] == ["processed"] * 2
    assert broker.terminate_and_wait() == 0
    broker = broker_process(data=broker.data)
    client = await connect(broker.url)
    assert [await disposition(client, numbered(n)) for n in (1, 3)] == ["duplicate", "processed"]
    broker.kill()
    client = await connect(broker_process(data=broker.data).url)
    assert [await disposition(client, numbered(n)) for n in (1, 2, 3, 4)] == ["duplicate"] * 3 + ["processed"]
    assert ledger.rows(broker.data) == [key(n) for n in (1, 2, 3, 4)]


async def test_out_of_order_and_repeated_posts_give_the_same_receipts_and_servers_as_in_order(
    start_app: StartApp, connect: Connect, tmp_path: Path
) -> None:
    names = ("connectivity.plugin_registration", "connectivity.plugin_heartbeat", "combat.on_shoot")
    bodies = [numbered(n, names[n % 3], source_time=1_739_980_000 + n, payload={"n": n}) for n in range(1, 31)]
    login = {"X-Pixel-Server-Login": "stadium-1", "X-Pixel-Plugin-Version": "1.0.0"}
    found = []
    for place, sent in (("in-order", bodies), ("shuffled", bodies[::4] + bodies[::-1] + bodies[::5])):
        app = await start_app({"data": str(tmp_path / place)}, clock=ManualClock())
        client = await connect(app.server.address)
        for body in sent:
            await disposition(client, body, login)
        columns = "source_event_id, stream, type, envelope, source_sequence, source_emitted_at, notes, dedupe_key"
        servers = "dedupe_scope, server_login, plugin_version, registration_sequence, heartbeat_sequence"
        rows = await app.journal.execute(lambda c, s=servers: list(c.execute(f"SELECT {s} FROM pixel_servers")))
        found.append((sorted(await stored(app, columns)), rows))
    assert found[0] == found[1]
    assert found[0][1] == [("local", "stadium-1", "1.0.0", 30, 28)]


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (request(), {"Content-Type": "application/x-www-form-urlencoded"}, "request_invalid"),
        (request(), {"Content-Type": "text/plain"}, "request_invalid"),
        (zlib.compress(request()), {"Content-Encoding": "deflate"}, "request_invalid"),
        (gzip.compress(request()), {"Content-Encoding": "gzip"}, "request_invalid"),
        (b"\x1f\x8b\x08\x00", {"Content-Encoding": "identity"}, "request_invalid"),
        (request().replace(b"ManiaPlanet", b"Mania\xff"), {}, "request_invalid"),
        (request(payload={"x": json.loads("[" * 65 + "]" * 65)}), {}, "request_invalid"),
        (b"envelope=1", {}, "request_invalid"),
        (b"", {}, "request_invalid"),
        (request()[:-3], {}, "request_invalid"),
        (request(source_time=float("nan")), {}, "request_invalid"),
        (request(source_sequence=10**40), {}, "envelope_invalid"),
        (request(schema_version="1"), {}, "schema_version_unsupported"),
        (request({"attempt": 0}), {}, "transport_invalid"),
    ],
)
async def test_a_bad_body_is_a_rejected_receipt_and_nothing_else(
    body: bytes, headers: dict[str, str], code: str, app: App, client: Client
) -> None:
    if "Content-Encoding" in headers:
        client.session._auto_decompress = False
    assert await refused_with(client, body, headers) == code
    assert await stored(app) == []
    assert await rejections(app, "contract, source_system, code") == [("pixel", "local", code)]
    assert [row[-1] for row in await receipt_rows(app)] == ["rejected"]


async def test_a_rejected_receipt_says_what_could_be_read(app: App, client: Client) -> None:
    await refused_with(client, request({"attempt": 3}, source_time=-5))
    assert await receipt_rows(app) == [
        (dedupe_key("local", KEY), "local", KEY, f"pc-evt-{EVENT.split('.', 1)[1].replace('.', '-')}-1739980000001",
         EVENT, "2026-02-19.1", 0, 3, "rejected"),
    ]  # fmt: skip
    assert await disposition(client, request()) == "processed", "a refusal does not use the key up"


async def test_a_body_past_the_bound_is_rejected_in_the_words_of_the_contract(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app({"server": {"maxBodyBytes": 2048}})
    client = await connect(app.server.address)
    assert await refused_with(client, request(payload={"p": "x" * 2000})) == "payload_too_large"
    assert await rejections(app) == ["payload_too_large"]


TOKENS = {
    "auth": {"tokens": [{"name": "server-a", "token": "a", "scopes": ["streams:pixel/**:enqueue"]}]},
    "pixel": {"apiKeyHeader": "X-My-Key"},
}


async def test_the_header_of_the_key_is_the_one_that_is_configured(start_app: StartApp, connect: Connect) -> None:
    app = await start_app(TOKENS)
    client = await connect(app.server.address)
    assert await disposition(client, request(), {"X-My-Key": "a"}) == "processed"
    assert await disposition(client, request(), {"Authorization": "Bearer a"}) == "duplicate"
    assert await refused_with(client, request(), {"X-Pixel-Control-Api-Key": "a"}) == "unauthorized"
    assert await rejections(app) == [], "whoever is not known leaves nothing behind"
    own = await client.get(f"v1/receipts/server-a/{KEY}", {"X-My-Key": "a"})
    assert (own.status, own.body["contract"], own.body["duplicates"]) == (200, "pixel", 1)


async def test_a_host_that_is_not_served_is_refused_as_everywhere(app: App, client: Client) -> None:
    answer = await post(client, request(), {"Host": "evil.example"})
    assert (answer.status, answer.body["error"]["code"]) == (403, "forbidden")
    answer = await post(client, request(), {"Origin": "https://evil.example"})
    assert (answer.status, answer.body["error"]["code"]) == (403, "forbidden")
    assert await stored(app) == []


async def test_over_quota_is_told_in_the_answer_and_may_be_retried(start_app: StartApp, connect: Connect) -> None:
    caps = {"pixel/**": {"rate": {"perSecond": 0.01, "burst": 1}}}
    app = await start_app({"streams": {"perStreamCaps": caps}})
    client = await connect(app.server.address)
    assert await disposition(client, numbered(1)) == "processed"
    answer = await post(client, numbered(2))
    ack = answer.body["ack"]
    assert (answer.status, ack["status"], ack["code"]) == (200, "rejected", "over_quota")
    assert (ack["retryable"], ack["retry_after_seconds"]) == (True, 100)
    assert await rejections(app) == []


async def test_a_stream_that_is_not_configured_is_the_operators_to_mend(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"autoCreate": False}})
    assert "autoCreate is off" in assert_unavailable(await post(await connect(app.server.address), request()))


async def test_a_broker_that_shuts_down_is_unavailable(app: App, client: Client) -> None:
    app.gate.draining = True
    assert "shutting down" in assert_unavailable(await post(client, request()))


async def test_without_the_library_of_schemas_the_endpoint_is_unavailable_and_the_rest_works(
    start_app: StartApp, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_directory: Path | None) -> PixelSchemas:
        raise ImportError("no module named jsonschema_rs")

    monkeypatch.setattr("broker.app.load_schemas", missing)
    client = await connect((await start_app()).server.address)
    assert "jsonschema-rs" in assert_unavailable(await post(client, request()))
    await client.enqueue("e-1")


async def test_a_payload_that_breaks_its_schema_is_taken_noted_and_counted(
    start_app: StartApp, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "schemas/payloads-2026-02-19.1"
    folder.mkdir(parents=True)
    (folder / f"{EVENT}.schema.json").write_text(json.dumps({"required": ["map"]}))
    app = await start_app({"pixel": {"schemas": str(tmp_path / "schemas")}})
    client = await connect(app.server.address)
    assert await disposition(client, request(payload=[]), {"X-Pixel-Server-Login": "stadium-1"}) == "processed"
    assert await disposition(client, numbered(7, payload={"map": "Stadium"})) == "processed"
    noted = (await client.get(f"v1/receipts/local/{KEY}")).body["notes"]
    assert noted == {
        "server_login": "stadium-1",
        "payload_violation": '/envelope/payload: "map" is a required property',
    }
    assert (await client.get(f"v1/receipts/local/{key(7)}")).body["notes"] is None
    assert app.pixel.payload_violations == {("2026-02-19.1", EVENT): 1}


async def test_a_subscriber_gets_the_plugins_own_bytes(app: App, client: Client) -> None:
    own = json.dumps(json.loads(request(payload={"n": 10**30}))["envelope"], indent=1)
    body = b'{"envelope": %b, "transport": %b}' % (own.encode(), json.dumps(TRANSPORT).encode())
    assert await disposition(client, body) == "processed"
    async with client.subscribe("pixel/lifecycle") as subscriber:
        await subscriber.credit(1)
        assert (await subscriber.message()).data == f'{{"deliver":{own},"attempt":1,"seq":1}}'


async def test_a_refusal_is_told_though_the_journal_cannot_keep_it(app: App, client: Client) -> None:
    app.journal.health.stalled = True
    assert await refused_with(client, b"{") == "request_invalid"
    assert "cannot commit" in assert_unavailable(await post(client, request()))

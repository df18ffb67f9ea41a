"""`GET /metrics` over sockets: what it says is what was done."""

import asyncio
import json
from pathlib import Path

import pytest

import broker.app
from broker.app import App
from broker.clock import ManualClock
from broker.journal.figures import oldest_pending_at
from broker.ops import stream_metrics
from broker.ops.metrics import DEFINED
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import STREAM, body
from tests.support.metrics import Scrape, scrape
from tests.support.streams import acked

MEMORY = "telemetry/door"


async def session(client: Client) -> None:
    """Five events: one acked, one refused once and then acked, one dead, one held, one waiting; and refusals."""
    await client.enqueue_all("e-1", "e-2", "e-3", "e-4", "e-5")
    await client.enqueue("e-1")
    await client.enqueue("e-1", payload="another")
    await client.enqueue("m-1", MEMORY)
    await client.enqueue("m-1", MEMORY)
    assert (await client.post(b"{")).status == 400
    assert (await client.get("nowhere")).status == 404


@pytest.fixture
async def busy(start_app: StartApp, connect: Connect) -> tuple[App, Client]:
    config = {
        "streams": {"perStreamCaps": {MEMORY: {"durability": "memory"}}, "maxDeliveries": 2},
        "triggers": [{"id": "idle", "when": {"to": "never"}, "do": [{"action": "notify", "to": "out"}]}],
    }
    app = await start_app(config)
    client = await connect(app.server.address)
    return app, client


async def test_the_metrics_of_a_stream_are_what_was_done_with_it(busy: tuple[App, Client]) -> None:
    _app, client = busy
    await session(client)
    async with client.subscribe() as subscriber:
        await subscriber.credit(3)
        assert await subscriber.ids(3) == ["e-1", "e-2", "e-3"]
        await subscriber.ack("e-1")
        await subscriber.send(nack="e-2")
        await subscriber.send(nack="e-3")
        await subscriber.credit(4)
        assert await subscriber.ids(4) == ["e-4", "e-5", "e-2", "e-3"]
        await subscriber.ack("e-2")
        await subscriber.send(nack="e-3")
        await subscriber.settled()
        found = await scrape(client)

        def of(name: str) -> float:
            return found(f"courier_stream_{name}", stream=STREAM)

        assert of("events_in_total") == 5
        assert of("events_out_total") == 7
        assert of("events_acked_total") == 2
        assert of("events_nacked_total") == 3
        assert of("redeliveries_total") == 2
        assert of("dead_letters_total") == 1
        assert (of("depth"), of("in_flight"), of("subscribers")) == (0, 2, 1)
        assert of("delivery_latency_seconds_count") == 5
        assert of("delivery_latency_seconds_sum") > 0
        quantiles = [
            found("courier_stream_delivery_latency_seconds", stream=STREAM, quantile=each) for each in ("0.5", "0.95")
        ]
        assert 0 < quantiles[0] <= quantiles[1] < 60
        assert found("courier_websockets", endpoint="subscribe") == 1
        stats = (await client.get(f"v1/streams/{STREAM}/stats")).body
        latencies = [stats["metrics"].pop(f"q.lat.{name}") for name in ("p50", "p95")]
        assert latencies == [stats["latP50"], stats["latP95"]] == pytest.approx([each * 1000 for each in quantiles])
        assert stats["metrics"] == {
            "q.in": 5, "q.out": 7, "q.ack": 2, "q.nack": 3, "q.re": 2, "q.depth": 0, "q.if": 2}  # fmt: skip


async def test_the_metrics_of_the_journal_and_the_front_are_what_was_done(busy: tuple[App, Client]) -> None:
    app, client = busy
    before = await scrape(client)
    await session(client)
    found = await scrape(client)

    def grown(name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return found(name, **labels) - before.samples.get(key, 0)

    assert grown("courier_journal_events_total") == 7
    assert found("courier_journal_batch_events_sum") == 7
    assert found("courier_journal_commit_seconds_count") >= 7
    assert found("courier_journal_commit_seconds_bucket", le="+Inf") == found("courier_journal_commit_seconds_count")
    assert found("courier_duplicates_total", durability="journal") == 2
    assert found("courier_duplicates_total", durability="memory") == 1
    assert found("courier_payload_conflicts_total") == 1
    assert (found("courier_journal_writable"), found("courier_journal_queue_events_max")) == (1, 5_000)
    assert found("courier_journal_wal_bytes") > 0
    assert grown("courier_refusals_total", code="invalid_request") == 1
    assert grown("courier_refusals_total", code="not_found") == 1
    assert grown("courier_http_requests_total", status="200") == 10, "nine events, and the scrape before"
    assert grown("courier_http_requests_total", status="400") == 1
    assert found("courier_connections") == app.server.connections >= 1
    assert (found("courier_view_entries", view="latestPerAgent"), found("courier_streams")) == (1, 2)


async def test_every_metric_that_is_defined_is_shown_and_no_other(busy: tuple[App, Client], tmp_path: Path) -> None:
    _app, client = busy
    await session(client)
    found = await scrape(client)
    shown = {name.removesuffix("_total") if kind == "counter" else name: kind for name, kind in found.kinds.items()}
    defined = {
        each.name.removesuffix("_total"): each.kind
        for each in DEFINED.values()
        if not any(part in each.name for part in ("event_log", "grpc", "courier_source_", "courier_bus_"))  # not here
    }
    without_samples = {"courier_quota_refusals"}
    assert set(defined) - set(shown) == without_samples
    assert shown == {name: kind for name, kind in defined.items() if name not in without_samples}


async def test_the_process_is_this_process(client: Client) -> None:
    found = await scrape(client)
    assert found("process_resident_memory_bytes") > 10_000_000
    assert 5 < found("process_open_fds") < found("process_max_fds")
    assert found("process_cpu_seconds_total") > 0
    assert 1_600_000_000 < found("process_start_time_seconds") < 4_000_000_000
    assert "python_gc_collections_total" in found.text
    assert len(found.labels("courier_build_info", "version")) == 1


@pytest.mark.parametrize(("labels_max", "labelled"), [(0, 0), (1, 1), (3, 3), (4, 4), (5, 4)])
async def test_past_the_bound_streams_are_one_and_nothing_is_lost(
    start_app: StartApp, connect: Connect, monkeypatch: pytest.MonkeyPatch, labels_max: int, labelled: int
) -> None:
    monkeypatch.setattr(stream_metrics, "SLICE", 2)
    app = await start_app({"metrics": {"maxStreams": labels_max}})
    client = await connect(app.server.address)
    streams = ["z", "b/c", "a", "m"]
    for number, name in enumerate(streams):
        for event in range(number + 1):
            await client.enqueue(f"e-{event}", name)
    async with client.subscribe("m") as subscriber:
        await subscriber.credit(2)
        await subscriber.ids(2)
        found = await scrape(client)
    shown = found.labels("courier_stream_events_in_total", "stream")
    assert shown == streams[:labelled] + (["(other)"] if labelled < len(streams) else [])
    name = "courier_stream_events_in_total"
    assert sum(found(name, stream=label) for label in shown) == 10
    assert sum(found("courier_stream_in_flight", stream=label) for label in shown) == 2
    assert sum(found("courier_stream_delivery_latency_seconds_count", stream=label) for label in shown) == 2
    await client.enqueue("e-1", "0-first-by-name")
    again = (await scrape(client)).labels(name, "stream")
    assert again[:labelled] == streams[:labelled], "a stream keeps its label"


@pytest.mark.parametrize(
    ("scopes", "status"), [(["metrics:read"], 200), (["admin:*"], 200), (["streams:*:subscribe", "views:*:read"], 403)]
)
async def test_metrics_need_a_scope_of_their_own_or_an_operator(
    start_app: StartApp, connect: Connect, scopes: list[str], status: int
) -> None:
    app = await start_app({"auth": {"tokens": [{"token": "t", "scopes": scopes}]}})
    client = await connect(app.server.address)
    assert_error(await client.get("metrics"), 401, "unauthorized")
    assert_error(await client.get("metrics", {"Authorization": "Bearer x"}), 401, "unauthorized")
    bearer = {"Authorization": "Bearer t"}
    if status == 403:
        message = assert_error(await client.get("metrics", bearer), 403, "forbidden")
        assert "lacks the scope metrics:read" in message
    else:
        found = await scrape(client, bearer)
        assert found("courier_auth_failures_total", reason="missing") == 1
        assert found("courier_auth_failures_total", reason="unknown") == 1


async def test_a_scrape_takes_no_query(client: Client) -> None:
    assert_error(await client.get("metrics?name=x"), 400, "invalid_request")


async def test_empty_buckets_are_counted(start_app: StartApp, connect: Connect) -> None:
    rate = {"perSecond": 0.001, "burst": 1}
    app = await start_app({"streams": {"perStreamCaps": {STREAM: {"rate": rate}}}})
    client = await connect(app.server.address)
    await client.enqueue("e-1")
    for _ in range(2):
        assert (await client.post(body("e-2"))).status == 429
    assert (await scrape(client))("courier_quota_refusals_total", bucket="stream") == 2


async def test_the_age_of_the_oldest_pending_event_is_asked_for_every_five_seconds_at_most(
    start_app: StartApp, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    app = await start_app(clock=clock)
    client = await connect(app.server.address)
    asked = []
    figures = broker.ops.journal_metrics.figures

    def spy(*arguments: object) -> object:
        asked.append(True)
        return figures(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.ops.journal_metrics, "figures", spy)
    age = "courier_journal_oldest_pending_age_seconds"
    assert (await scrape(client))(age) == 0
    await client.enqueue("e-1")
    clock.advance(4_999)
    assert (await scrape(client))(age) == 0
    clock.advance(1)
    assert (await scrape(client))(age) == 5
    clock.advance(3_000)
    assert (await scrape(client))(age) == 8
    assert len(asked) == 2


async def test_the_oldest_pending_event_is_the_one_that_a_scan_would_find(app: App, client: Client) -> None:
    oldest = "SELECT received_at FROM ledger WHERE state = 0 ORDER BY seq LIMIT 1"

    async def check() -> None:
        expected = await app.journal.readers.run(lambda connection: connection.execute(oldest).get)
        assert await app.journal.readers.run(oldest_pending_at) == expected

    await check()
    for number, name in enumerate(["z", "a", "m/n", "z", "a", "b"]):
        await client.enqueue(f"e-{number}", name)
        await check()
    for seq in (1, 2, 4, 3, 6, 5):
        app.journal.processed(acked(seq, 1))
        await app.journal.execute(lambda _connection: None)
        await check()


async def test_a_journal_that_cannot_be_read_does_not_hide_the_other_metrics(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object) -> object:
        raise OSError("no such disk")

    monkeypatch.setattr(broker.ops.journal_metrics, "figures", fail)
    found = await scrape(client)
    assert "courier_journal_wal_bytes" not in found.kinds
    assert found("courier_journal_writable") == 1
    assert "the figures of the ledger could not be read: no such disk" in caplog.text


async def test_scrapes_at_once_are_all_answered(client: Client) -> None:
    found: list[Scrape] = await asyncio.gather(*(scrape(client) for _ in range(20)))
    assert len(found) == 20


async def test_the_endpoint_is_in_the_openapi_document(client: Client) -> None:
    (answers,) = [
        each["get"]["responses"]["200"]["content"]
        for path, each in (await client.get("openapi.json")).body["paths"].items()
        if path == "/metrics"
    ]
    assert json.dumps(answers) == '{"text/plain": {"schema": {"type": "string"}}}'

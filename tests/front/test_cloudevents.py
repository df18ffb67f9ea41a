"""`POST /v1/cloudevents`, with the official SDK as the client."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.bindings.http import HTTPMessage
from cloudevents.core.v1.event import CloudEvent

from broker.app import App
from broker.streams.entry import MEMORY_SEQ_FIRST
from tests.conftest import Connect, StartApp, StartBroker
from tests.support import ledger
from tests.support.client import Answer, Client, assert_error
from tests.support.writer import stored

ATTRIBUTES = {
    "id": "A 234/ž",
    "source": "https://example.com/sensors?a=b#c",
    "type": "com.example.door.opened",
    "specversion": "1.0",
    "subject": "sensors/door",
    "time": datetime(2026, 2, 19, 18, 14, 2, tzinfo=UTC),
    "myextension": 'Euro € "quoted" 100%',
}
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCHED = {"Content-Type": "application/cloudevents-batch+json"}


def made(data: Any = None, **attributes: Any) -> CloudEvent:
    return CloudEvent(attributes=ATTRIBUTES | attributes, data=data)


async def send(client: Client, message: HTTPMessage) -> Answer:
    return await client.request("POST", "v1/cloudevents", data=message.body, headers=message.headers)


async def delivered(client: Client, stream: str = "sensors/door") -> CloudEvent:
    """The next event of a stream, read back by the SDK."""
    async with client.subscribe(stream) as subscriber:
        await subscriber.credit(1)
        frame = await subscriber.delivery()
        await subscriber.ack(frame["deliver"]["id"])
        await subscriber.settled()
    found = http.from_structured_event(HTTPMessage(STRUCTURED, json.dumps(frame["deliver"]).encode()))
    assert isinstance(found, CloudEvent)
    return found


@pytest.mark.parametrize("write", [http.to_structured_event, http.to_binary_event])
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"open": True, "text": "žluťoučký"}, "application/json"),
        ([1, 2, 3], "application/json"),
        ("plain text", "text/plain"),
        (bytes(range(256)), "application/octet-stream"),
        (None, None),
    ],
)
async def test_what_the_sdk_sends_the_sdk_reads_back(
    write: Any, data: Any, kind: str | None, app: App, client: Client
) -> None:
    sent = made(data, **({} if kind is None else {"datacontenttype": kind}))
    answer = await send(client, write(sent))
    assert (answer.status, answer.body) == (200, {"id": ATTRIBUTES["id"], "seq": 1, "duplicate": False})
    again = await send(client, write(sent))
    assert again.body == {"id": ATTRIBUTES["id"], "seq": 1, "duplicate": True}
    found = await delivered(client)
    assert {name: found.get_attributes()[name] for name in ATTRIBUTES} == ATTRIBUTES
    read = found.get_data()
    if isinstance(data, str) and isinstance(read, bytes):
        read = read.decode()
    assert read == data


async def test_structured_bytes_are_delivered_as_they_came(app: App, client: Client) -> None:
    body = b'{ "specversion":"1.0",\t"id" : "1","source":"/s","type":"t","subject":"a","data":{"n":1E400,"n":2}}'
    answer = await client.request("POST", "v1/cloudevents", data=body, headers=STRUCTURED)
    assert answer.status == 200, answer
    async with client.subscribe("a") as subscriber:
        await subscriber.credit(1)
        assert (await subscriber.message()).data.encode() == b'{"deliver":%b,"attempt":1,"seq":1}' % body


async def test_both_modes_of_one_event_are_one_event(app: App, client: Client) -> None:
    assert (await send(client, http.to_structured_event(made({"a": 1})))).body["duplicate"] is False
    second = (await send(client, http.to_binary_event(made({"a": 1})))).body
    assert (second["duplicate"], second["seq"]) == (True, 1)


async def batch(client: Client, *events: Any) -> Answer:
    return await client.request("POST", "v1/cloudevents", data=json.dumps(events), headers=BATCHED)


def plain(event_id: str, **fields: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": event_id, "source": "/s", "type": "t", "subject": "a/b"} | fields


async def test_a_batch_is_one_commit(app: App, client: Client) -> None:
    commits = app.journal.health.commits
    answer = await batch(client, *(plain(str(n)) for n in range(100)))
    assert [each["seq"] for each in answer.body] == list(range(1, 101))
    assert app.journal.health.commits == commits + 1


@pytest.mark.parametrize("wrong", [plain("x", type=5), plain("x", subject="?"), 5, [], plain("x", source="")])
async def test_a_batch_with_one_wrong_event_stores_nothing(wrong: Any, app: App, client: Client) -> None:
    assert_error(await batch(client, plain("1"), wrong, plain("2")), 400, "invalid_envelope", index=1)
    assert await stored(app) == []


async def test_a_batch_that_does_not_fit_into_memory_may_be_sent_again(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"perStreamCaps": {"a/*": {"durability": "memory", "maxDepth": 1}}}})
    client = await connect(app.server.address)
    answer = await batch(client, plain("1"), plain("2"))
    assert_error(answer, 503, "storage_unavailable", retryable=True, index=1)
    assert (await batch(client, plain("1"))).body == [{"id": "1", "seq": MEMORY_SEQ_FIRST, "duplicate": True}]


async def test_a_token_needs_the_scope_of_the_stream_for_every_event_and_for_receipts(
    start_app: StartApp, connect: Connect
) -> None:
    tokens = [
        {"name": "w", "token": "w", "scopes": ["streams:a/*:enqueue"]},
        {"name": "r", "token": "r", "scopes": ["streams:a/**:subscribe"]},
    ]
    app = await start_app({"auth": {"tokens": tokens}})
    writer = await connect(app.server.address, headers={"Authorization": "Bearer w"})
    reader = await connect(app.server.address, headers={"Authorization": "Bearer r"})
    assert_error(await batch(reader, plain("1")), 403, "forbidden", index=0)
    assert_error(await batch(writer, plain("1"), plain("2", subject="c")), 403, "forbidden", index=1)
    assert (await batch(writer, plain("1", source="w"))).status == 200
    assert await stored(app) == ["1"]
    assert (await reader.get("v1/receipts/ce:w/1")).body["contract"] == "cloudevents"
    assert (await writer.get("v1/receipts/ce:w/1")).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/cloudevents+xml", "ce-specversion": "1.0"},
        {"Content-Type": "application/cloudevents"},
        STRUCTURED | {"Content-Encoding": "gzip"},
    ],
)
async def test_another_content_type_is_refused(headers: dict[str, str], app: App, client: Client) -> None:
    answer = await client.request("POST", "v1/cloudevents", data=json.dumps(plain("1")), headers=headers)
    assert_error(answer, 415, "unsupported_content_type")
    assert await stored(app) == []


async def test_dedupe_lasts_over_a_kill(broker_process: StartBroker, connect: Connect) -> None:
    broker = broker_process()
    client = await connect(broker.url)
    message = http.to_binary_event(made(b"\x00\x01", datacontenttype="image/png"))
    assert (await send(client, message)).body["duplicate"] is False
    broker.kill()
    client = await connect(broker_process(data=broker.data).url)
    assert (await send(client, message)).body == {"id": ATTRIBUTES["id"], "seq": 1, "duplicate": True}
    (envelope,) = ledger.rows(broker.data, "envelope")
    assert base64.b64decode(json.loads(envelope)["data_base64"]) == b"\x00\x01"

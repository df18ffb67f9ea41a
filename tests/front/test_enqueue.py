"""`POST /v1/enqueue`: what is taken, what is stored, and when it is acknowledged."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator

from broker.app import App
from broker.limits import ENVELOPE_BYTES_MAX
from tests.support.client import JSON, Client
from tests.support.events import AWKWARD_PAYLOADS, STREAM, body, raw_body, raw_envelope
from tests.support.refusals import sized_envelope
from tests.support.writer import eventually, held_writer, stored


async def test_an_event_is_answered_with_its_id_and_sequence(client: Client) -> None:
    assert await client.enqueue("e-1") == {"id": "e-1", "seq": 1, "duplicate": False}
    assert await client.enqueue("e-2", "another/stream") == {"id": "e-2", "seq": 2, "duplicate": False}


async def test_the_ledger_has_what_the_envelope_says(app: App, client: Client) -> None:
    sent = raw_envelope("e-1").replace(b'"type"', b'"corr": "c-42", "type"')
    assert (await client.post(raw_body(sent))).status == 200
    columns = "contract, stream, type, source_system, source_event_id, state, correlation_id, source_emitted_at"
    rows = await stored(app, f"{columns}, envelope, payload_sha256")
    known = ("courier", STREAM, "t", f"stream:{STREAM}", "e-1", 0, "c-42", "2025-10-18T19:55:00+00:00")
    assert rows == [(*known, sent, hashlib.sha256(sent).digest())]


async def test_the_envelope_is_stored_byte_for_byte(app: App, client: Client) -> None:
    sent = [raw_envelope(f"e-{number}", payload) for number, payload in enumerate(AWKWARD_PAYLOADS)]
    for each in sent:
        assert (await client.post(raw_body(each))).status == 200
    assert await stored(app, "envelope") == sent


async def test_an_envelope_of_just_the_allowed_size_is_stored(app: App, client: Client) -> None:
    sent = sized_envelope(ENVELOPE_BYTES_MAX)
    assert (await client.post(io.BytesIO(raw_body(sent)))).status == 200
    assert await stored(app, "envelope") == [sent]


async def test_the_same_event_again_is_a_duplicate_of_the_first(app: App, client: Client) -> None:
    assert (await client.enqueue("e-1"))["seq"] == 1
    assert (await client.enqueue("e-2"))["seq"] == 2
    for _ in range(2):
        assert await client.enqueue("e-1") == {"id": "e-1", "seq": 1, "duplicate": True}
    assert await stored(app, "source_event_id, duplicate_count") == [("e-1", 2), ("e-2", 0)]


async def test_the_same_id_with_another_payload_is_a_duplicate_in_conflict(app: App, client: Client) -> None:
    await client.enqueue("e-1", payload=1)
    answer = await client.enqueue("e-1", payload=2)
    assert answer == {"id": "e-1", "seq": 1, "duplicate": True, "payload_conflict": True}
    assert "payload_conflict" not in await client.enqueue("e-1", payload=1)
    assert await stored(app, "envelope ->> 'payload'") == [1]


async def test_the_same_id_on_another_stream_is_another_event(client: Client) -> None:
    assert (await client.enqueue("e-1", "one"))["duplicate"] is False
    assert (await client.enqueue("e-1", "two"))["duplicate"] is False


async def test_of_equal_events_at_once_one_is_new(client: Client) -> None:
    answers = await asyncio.gather(*(client.enqueue("e-1") for _ in range(20)))
    assert sorted(answer["duplicate"] for answer in answers) == [False] + [True] * 19
    assert {answer["seq"] for answer in answers} == {1}


async def test_nothing_is_acknowledged_before_its_commit_not_even_a_duplicate(app: App, client: Client) -> None:
    async with held_writer(app):
        waiting = [asyncio.create_task(client.enqueue("e-1")) for _ in range(2)]
        await eventually(lambda: app.journal.queued == 2)
        assert (await client.get("livez")).status == 200
        assert not any(task.done() for task in waiting)
    answers = await asyncio.gather(*waiting)
    assert sorted(answer["duplicate"] for answer in answers) == [False, True]


async def test_a_producer_that_goes_away_while_it_waits_harms_nobody(app: App, client: Client) -> None:
    async with held_writer(app):
        waiting = asyncio.create_task(client.enqueue("e-1"))
        await eventually(lambda: app.journal.queued == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert (await client.enqueue("e-1"))["duplicate"] is True


async def test_a_body_in_pieces_is_taken(client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for byte in body():
            yield bytes([byte])

    answer = await client.request("POST", "v1/enqueue", data=pieces(), headers=JSON)
    assert answer.status == 200


async def test_json_may_be_declared_with_parameters_and_in_capitals(client: Client) -> None:
    for content_type in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
        assert (await client.post(body(), {"Content-Type": content_type})).status == 200

"""`POST /v1/enqueue` with `application/x-ndjson`: many events, one commit, one answer line for each."""

import asyncio
import json
from typing import Any

import pytest

from broker.app import App
from broker.limits import NDJSON_LINES_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import STREAM, body
from tests.support.writer import eventually, held_writer, stored

NDJSON = {"Content-Type": "application/x-ndjson"}


async def send(client: Client, data: bytes, headers: dict[str, str] | None = None) -> list[Any]:
    """The answer lines to a body that is taken."""
    async with client.session.post("v1/enqueue", data=data, headers=NDJSON | (headers or {})) as response:
        content = await response.read()
        assert (response.status, response.content_type) == (200, "application/x-ndjson"), content
        assert content.endswith(b"\n")
        return [json.loads(line) for line in content.splitlines()]


async def test_lines_are_answered_in_order_and_stored_in_order(app: App, client: Client) -> None:
    answers = await send(client, b"\n".join(body(f"e-{number}") for number in range(1, 4)))
    assert answers == [{"id": f"e-{number}", "seq": number, "duplicate": False} for number in range(1, 4)]
    assert await stored(app) == ["e-1", "e-2", "e-3"]


async def test_the_lines_of_one_body_are_one_submission(app: App, client: Client) -> None:
    async with held_writer(app):
        sending = asyncio.create_task(send(client, b"\n".join(body(f"e-{number}") for number in range(3))))
        await eventually(lambda: app.journal.queued == 3)
        assert not sending.done()
    assert len(await sending) == 3


async def test_a_bad_line_is_one_error_line_with_its_number_and_the_rest_go_in(app: App, client: Client) -> None:
    answers = await send(client, b"\n".join([body("e-1"), b"{", b"", body("e-2", ts="yesterday"), body("e-3")]) + b"\n")
    assert [answer.get("id") for answer in answers] == ["e-1", None, None, "e-3"]
    assert [(a["error"]["code"], a["error"]["line"]) for a in answers if "error" in a] == [
        ("invalid_request", 2),
        ("invalid_envelope", 4),
    ]
    assert await stored(app) == ["e-1", "e-3"]


async def test_blank_lines_are_passed_over_and_lines_may_end_as_on_windows(app: App, client: Client) -> None:
    answers = await send(client, b"\r\n \t\r\n" + body("e-1") + b"\r\n\r\n" + body("e-2") + b"\r\n")
    assert [answer["id"] for answer in answers] == ["e-1", "e-2"]
    assert await stored(app) == ["e-1", "e-2"]


async def test_a_duplicate_inside_one_body_is_a_duplicate(app: App, client: Client) -> None:
    answers = await send(client, b"\n".join([body("e-1"), body("e-1"), body("e-1", payload="other"), body("e-2")]))
    assert answers == [
        {"id": "e-1", "seq": 1, "duplicate": False},
        {"id": "e-1", "seq": 1, "duplicate": True},
        {"id": "e-1", "seq": 1, "duplicate": True, "payload_conflict": True},
        {"id": "e-2", "seq": 2, "duplicate": False},
    ]
    assert await stored(app) == ["e-1", "e-2"]


async def test_when_every_line_is_bad_every_line_is_answered_and_nothing_is_stored(app: App, client: Client) -> None:
    assert [answer["error"]["line"] for answer in await send(client, b"1\n2\n3")] == [1, 2, 3]
    assert await stored(app) == []


async def test_a_body_without_a_line_is_refused(client: Client) -> None:
    for data in (b"", b"\n", b" \r\n\t\n"):
        message = assert_error(await client.post(data, NDJSON), 400, "invalid_request")
        assert message == 'the body has no line; send one {"to": stream, "envelope": {…}} a line'


@pytest.mark.parametrize("ending", [b"", b"\n"])
async def test_as_many_lines_as_allowed_are_taken_and_one_more_is_too_large(
    app: App, client: Client, ending: bytes
) -> None:
    lines = [b""] * (NDJSON_LINES_MAX - 2) + [body("e-1")]
    assert [a["id"] for a in await send(client, b"\n".join([*lines, b""]) + ending)] == ["e-1"]
    assert [a["duplicate"] for a in await send(client, b"\n".join([*lines, body("e-1")]) + ending)] == [True, True]
    message = assert_error(await client.post(b"\n".join([*lines, b"", body("e-2")]) + ending, NDJSON), 413, "too_large")
    most = NDJSON_LINES_MAX
    assert message == f"the body has {most + 1} lines; at most {most} are taken at once: split it"
    assert await stored(app) == ["e-1"]


async def test_a_full_queue_refuses_the_whole_body_and_nothing_of_it_is_stored(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app({"journal": {"queueMax": 2}})
    client = await connect(app.server.address)
    both = body("e-2") + b"\n" + body("e-3")
    async with held_writer(app):
        waiting = asyncio.create_task(client.enqueue("e-1"))
        await eventually(lambda: app.journal.queued == 1)
        assert_error(await client.post(both, NDJSON), 503, "saturated", retryable=True)
    await waiting
    assert await stored(app) == ["e-1"]
    assert [answer["seq"] for answer in await send(client, both)] == [2, 3]


async def test_a_failed_journal_and_a_draining_broker_refuse_the_whole_body(app: App, client: Client) -> None:
    app.gate.draining = True
    assert_error(await client.post(body("e-1"), NDJSON), 503, "draining", retryable=True)
    app.gate.draining = False
    app.journal.health.failed("the disk is gone")
    assert_error(await client.post(body("e-1"), NDJSON), 503, "storage_failed", retryable=True)


async def test_a_line_for_a_stream_that_the_token_does_not_cover_is_one_error_line(
    start_app: StartApp, connect: Connect
) -> None:
    app = await start_app({"auth": {"tokens": [{"token": "t", "scopes": [f"streams:{STREAM}:enqueue"]}]}})
    client = await connect(app.server.address)
    answers = await send(client, body("e-1", "other") + b"\n" + body("e-2"), {"Authorization": "Bearer t"})
    assert [answer.get("error", {}).get("code") for answer in answers] == ["forbidden", None]
    assert await stored(app) == ["e-2"]

"""`POST /v1/enqueue`: what is refused, in which shape, and that nothing of it is stored."""

import asyncio
import io
import zlib
from collections.abc import AsyncIterator

import pytest

from broker.app import App
from broker.limits import FRAME_BYTES_MAX, JSON_DEPTH_MAX
from tests.conftest import Connect, StartApp
from tests.support.client import Client, assert_error
from tests.support.events import body, raw_body, raw_envelope
from tests.support.raw import PATIENCE_SECONDS, exchange, websocket
from tests.support.refusals import NOT_JSON, REFUSALS
from tests.support.writer import eventually, held_writer, stored


async def test_every_refusal_has_the_one_shape_and_nothing_is_stored(app: App, client: Client) -> None:
    for refusal in REFUSALS:
        answer = await client.post(io.BytesIO(refusal.body))
        assert assert_error(answer, refusal.status, refusal.code) == refusal.message, refusal.name
    for sent in NOT_JSON:
        assert_error(await client.post(sent), 400, "invalid_request")
    assert await stored(app) == []


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_body_past_the_allowed_size_is_too_large(client: Client, in_pieces: bool) -> None:
    sent = b" " * (4 * 1024 * 1024 + 1)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(sent), 65536):
            yield sent[start : start + 65536]

    message = assert_error(await client.post(pieces() if in_pieces else io.BytesIO(sent)), 413, "too_large")
    assert message == "the body is larger than server.maxBodyBytes allows; split it"


async def test_a_configured_size_is_allowed_and_one_byte_more_is_not(start_app: StartApp, connect: Connect) -> None:
    sent = body(payload="x" * 2000)
    app = await start_app({"server": {"maxBodyBytes": len(sent)}})
    client = await connect(app.server.address)
    assert_error(await client.post(sent + b" "), 413, "too_large")
    assert (await client.post(sent)).status == 200


async def test_another_content_type_is_refused(client: Client) -> None:
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/octet-stream",
        "application/jsonp",
        "text/json",
    ]:
        answer = await client.post(body(), {"Content-Type": content_type})
        message = assert_error(answer, 415, "unsupported_content_type")
        found = content_type.partition(";")[0]
        assert message == (
            f"the content type is '{found}'; "
            "send JSON as 'Content-Type: application/json' or 'Content-Type: application/x-ndjson'"
        )


async def test_json_with_parameters_or_in_capitals_is_json(client: Client) -> None:
    for number, content_type in enumerate(
        ["application/json; charset=utf-8", "Application/JSON", "application/json;charset=latin-1"]
    ):
        assert (await client.post(body(f"e-{number}"), {"Content-Type": content_type})).status == 200
    for content_type in ("application/json, text/plain", "text/plain; application/json", "application/json-seq"):
        assert (await client.post(body("e-9"), {"Content-Type": content_type})).status == 415


async def test_nesting_of_the_allowed_depth_is_taken_over_both_ways_in_and_one_level_more_is_not(
    client: Client,
) -> None:
    async with client.session.ws_connect("v1/publish") as socket:
        assert "window" in await socket.receive_json()
        for levels, fits in ((JSON_DEPTH_MAX - 1, True), (JSON_DEPTH_MAX, True), (JSON_DEPTH_MAX + 1, False)):
            inner = levels - 2  # the body and the envelope are two levels
            sent = raw_body(raw_envelope(payload=b"[" * inner + b"]" * inner))
            assert (await client.post(sent)).status == (200 if fits else 400), levels
            await socket.send_str(sent.decode())
            assert next(iter(await socket.receive_json())) == ("ack" if fits else "error"), levels


async def test_a_publishing_frame_of_the_allowed_size_is_taken(app: App, client: Client) -> None:
    async with client.session.ws_connect("v1/publish") as socket:
        assert "window" in await socket.receive_json()
        for size in (FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX):
            await socket.send_str(body(f"e-{size}").decode().ljust(size))
            assert (await socket.receive_json())["ack"] == f"e-{size}"


async def test_a_publishing_frame_that_is_one_byte_too_long_closes_the_socket(app: App) -> None:
    async with websocket(app, "/v1/publish") as (reader, writer):
        async with asyncio.timeout(PATIENCE_SECONDS):
            _, length = await reader.readexactly(2)
            assert b"window" in await reader.readexactly(length)
            writer.write(b"\x81\xff" + (FRAME_BYTES_MAX + 1).to_bytes(8, "big"))
            kind, _, *code = await reader.readexactly(4)
        assert (kind & 0x0F, int.from_bytes(code)) == (8, 1009)


async def test_a_form_post_of_a_web_page_is_refused(app: App, client: Client) -> None:
    answer = await client.request("POST", "v1/enqueue", data={body().decode(): ""})
    assert_error(answer, 415, "unsupported_content_type")
    assert await stored(app) == []


async def test_a_body_without_a_content_type_is_refused(client: Client) -> None:
    async with client.session.post("v1/enqueue", data=body(), skip_auto_headers=["Content-Type"]) as response:
        assert response.status == 415


async def test_a_body_that_does_not_unpack_is_the_callers_fault(client: Client) -> None:
    answer = await client.post(b"not packed", {"Content-Encoding": "deflate"})
    assert_error(answer, 400, "invalid_request")


async def test_a_body_that_does_not_unpack_is_not_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    head = (
        b"POST /v1/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    )
    answer = await exchange(app.server.port, head + b"Content-Length: 8\r\n\r\nnonsense")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'{"error":{"code":"invalid_request"' in answer
    assert caplog.text == ""


async def test_a_body_in_an_encoding_that_is_not_known_is_refused(app: App, client: Client) -> None:
    headers = {"Content-Encoding": "rot13"}
    message = assert_error(await client.post(body("e-1"), headers), 415, "unsupported_content_type")
    assert message == "the content encoding is 'rot13'; send the body as it is, or with gzip or deflate"
    assert await stored(app) == []


async def test_an_expectation_that_is_not_known_is_passed_over(app: App, client: Client) -> None:
    for expectation in ("100-continue", "200-magic"):
        assert (await client.post(body(expectation), {"Expect": expectation})).status == 200
    assert await stored(app) == ["100-continue", "200-magic"]


async def test_a_small_body_that_unpacks_to_a_large_one_is_too_large(client: Client) -> None:
    answer = await client.post(zlib.compress(b" " * (8 * 1024 * 1024)), {"Content-Encoding": "deflate"})
    assert_error(answer, 413, "too_large")


async def test_a_body_whose_pieces_are_broken_is_refused(app: App) -> None:
    head = b"POST /v1/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = await exchange(app.server.port, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n")
    assert answer.split(b"\r\n")[0].endswith(b" 400 Bad Request")
    assert await stored(app) == []


async def test_a_caller_that_goes_away_in_the_middle_of_a_body_is_not_an_error_of_the_broker(
    app: App, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /v1/enqueue HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert await exchange(app.server.port, head + b"Content-Length: 999\r\n\r\n" + body(), hang_up=True) == b""
    connections = app.server._runner.server
    await eventually(lambda: connections.requests_count == 1 and not connections.connections)
    assert caplog.text == ""
    assert (await client.enqueue("e-2"))["seq"] == 1


async def test_past_the_queue_of_the_writer_it_is_saturated_and_recovers(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"journal": {"queueMax": 2}})
    client = await connect(app.server.address)
    async with held_writer(app):
        waiting = [asyncio.create_task(client.enqueue(f"e-{number}")) for number in range(2)]
        await eventually(lambda: app.journal.queued == 2)
        message = assert_error(await client.post(body("e-2")), 503, "saturated", retryable=True)
        assert message == "2 events wait for the disk already; slow down, and send it again"
        assert (await client.get("readyz")).status == 200
    await asyncio.gather(*waiting)
    assert (await client.enqueue("e-2"))["duplicate"] is False
    assert sorted(await stored(app)) == ["e-0", "e-1", "e-2"]


async def test_a_stream_that_may_not_be_made_is_unknown(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"autoCreate": False}})
    answer = await (await connect(app.server.address)).post(body())
    message = assert_error(answer, 404, "unknown_stream")
    assert message == "there is no stream 'agents/Jen/inbox', and streams.autoCreate is off; see perStreamCaps"
    assert await stored(app) == []


async def test_a_stream_that_the_configuration_names_needs_no_leave(start_app: StartApp, connect: Connect) -> None:
    app = await start_app({"streams": {"autoCreate": False, "perStreamCaps": {"agents/Jen/inbox": {}}}})
    assert (await (await connect(app.server.address)).post(body())).status == 200


async def test_past_the_bound_of_streams_no_more_are_made(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.streams.registry.STREAMS_MAX", 2)
    await client.enqueue("e-1", "one")
    await client.enqueue("e-1", "two")
    assert_error(await client.post(body("e-1", "three")), 429, "over_quota", retryable=True)
    await client.enqueue("e-2", "two")


async def test_an_error_of_the_broker_itself_is_answered_and_logged(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app.journal, "submit_events", broken)
    message = assert_error(await client.post(body()), 500, "internal")
    assert message == "the broker met an error of its own; its log has the details"
    assert "ZeroDivisionError" in caplog.text

"""Servers that mean no good, or are broken: each is a failure of its source, said in one line, and tried again."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from tests.sources.conftest import Pulling
from tests.support.upstream import Upstream, item, until

Writer = asyncio.StreamWriter


async def raw_server(answer: Callable[[Writer, int], Awaitable[None]]) -> tuple[asyncio.Server, str]:
    """A server that answers with whatever bytes a test likes; the number of the request is given."""
    asked = 0

    async def handle(reader: asyncio.StreamReader, writer: Writer) -> None:
        nonlocal asked
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                asked += 1
                await answer(writer, asked)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/events?after={{cursor}}"


def document(body: bytes, *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 200 OK", b"Content-Type: application/json", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


async def test_the_same_cursor_or_an_empty_page_for_ever_is_asked_for_no_more_often_than_the_interval(
    upstream: Upstream, pulling: Pulling
) -> None:
    bodies = [b'{"data":{"items":[{"id":"a"}]},"next":"c"}', b'{"data":{"items":[]},"next":"%d"}']

    async def over_again(request: web.Request) -> web.Response:
        body = bodies[0] if len(upstream.requests) < 3 else bodies[1] % len(upstream.requests)
        return web.Response(body=body, content_type="application/json")

    upstream.answer = over_again
    state = await pulling.poll(intervalMs=60_000)
    await until(lambda: state.phase == "waiting" and state.rounds == 2)
    assert (state.events, state.duplicates, state.cursor, len(upstream.requests)) == (1, 1, "c", 2)
    await pulling.app.drain()
    state = await pulling.poll(intervalMs=60_000)
    await until(lambda: state.phase == "waiting")
    await until(lambda: state.cursor == "3")
    assert len(upstream.requests) == 3
    assert state.next_attempt_at is not None
    assert state.next_attempt_at > pulling.app.core.clock.wall_us() + 50_000_000


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /events\r\nContent-Length: 0\r\n\r\n", "redirects more than 5 times"),
        (b"HTTP/1.1 302 Found\r\nLocation: //[\r\nContent-Length: 0\r\n\r\n", "redirects to something that is no URL"),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", "redirects to"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://a:b@127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "another origin"),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "answers 302"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", "answers 304"),
        (b"HTTP/1.1 503 x\r\nRetry-After: Mon, 16 Feb 99999999999 23:10:31 GMT\r\nContent-Length: 0\r\n\r\n", "503"),
        (document(b"{}", b"X: " + b"x" * 1_000_000), ""),
        (document(b"{}", *[b"X-%d: y" % n for n in range(200_000)]), ""),
        (b"SSH-2.0-OpenSSH_9\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", ""),
        (document(b"\xff"), ""),
        (document(b'{"next":"\\u0000","data":{"items":[]}}'), "cursor"),
        (document(b"[" * 3_000_000), ""),
        (document(b'{"data":{"items":' + b"[" * 100_000), ""),
    ],
)  # fmt: skip
async def test_an_answer_of_whatever_bytes_is_a_failure_that_is_said_and_tried_again(
    pulling: Pulling, caplog: pytest.LogCaptureFixture, answer: bytes, reason: str
) -> None:
    async def say(writer: Writer, _number: int) -> None:
        writer.write(answer)

    server, url = await raw_server(say)
    async with server:
        state = await pulling.poll(url=url, timeoutMs=2_000)
        await until(lambda: state.errors >= 2)
        assert reason in (state.last_error or "")
        assert state.last_error
        assert len(state.last_error) <= 300
        assert "does not know" not in caplog.text, caplog.text
        assert "passwd" not in state.last_error
        assert "a:b" not in state.last_error


async def test_an_etag_of_any_bytes_stops_no_later_poll(pulling: Pulling, caplog: pytest.LogCaptureFixture) -> None:
    async def say(writer: Writer, number: int) -> None:
        items = b'{"id":"a"}' if number < 3 else b'{"id":"b"}'
        writer.write(document(b'{"data":{"items":[' + items + b"]}}", b'ETag: "\xff\x01\xed\xa0\x80"'))

    server, url = await raw_server(say)
    async with server:
        state = await pulling.poll(url=url)
        await until(lambda: state.events == 2 or state.errors > 2)
        assert (state.events, state.errors) == (2, 0), state.last_error


async def test_a_body_that_trickles_is_given_up_when_its_time_is_over(pulling: Pulling) -> None:
    async def say(writer: Writer, _number: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.01)

    server, url = await raw_server(say)
    async with server:
        state = await pulling.poll(url=url, timeoutMs=200)
        await until(lambda: state.errors >= 2)
        assert "timeoutMs" in (state.last_error or "")


async def test_a_bomb_is_unpacked_no_further_than_the_body_may_be_long(pulling: Pulling) -> None:
    """A megabyte that would be a gigabyte, in one piece."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1 << 10)) + packer.flush()

    async def say(writer: Writer, _number: int) -> None:
        writer.write(document(packed, b"Content-Encoding: gzip"))

    def peak_kib() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    server, url = await raw_server(say)
    async with server:
        before = peak_kib()
        state = await pulling.poll(url=url, maxBodyBytes=4096)
        await until(lambda: state.errors >= 2)
        assert "more than 4096 bytes" in (state.last_error or "")
        assert peak_kib() - before < 64 * 1024


async def test_a_header_with_a_secret_is_in_no_error_and_no_log(
    upstream: Upstream, pulling: Pulling, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("FEED_SECRET", "s3cr3t-of-the-feed")
    upstream.add(item(1))

    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=401)

    upstream.answer = refuse
    state = await pulling.poll(headers={"Authorization": "Bearer ${env:FEED_SECRET}"})
    await until(lambda: state.errors >= 2)
    assert "s3cr3t" not in caplog.text + (state.last_error or "") + repr(pulling.app.config.sources)

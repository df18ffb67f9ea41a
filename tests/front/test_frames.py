"""Frames as bytes on the line: however they are cut and mixed, each text counts once, in its place."""

import asyncio
import json
import struct
from typing import Any

import pytest

from broker.app import App
from broker.config import Auth, Token
from broker.front import sockets, subscribe
from broker.front.frames import TextSocket
from tests.conftest import Connect, StartApp
from tests.front.test_publish import ids
from tests.support.client import PATIENCE_SECONDS, Client
from tests.support.events import body
from tests.support.raw import websocket
from tests.support.writer import eventually, held_writer, stored

HANDSHAKE = (
    b"GET /v1/publish HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TOKENS = Auth(tokens=(Token(token="t", scopes=("streams:*:enqueue",), name="t"),))
CLOSE, PING, PONG, TEXT, CONTINUED = 0x88, 0x89, 0x8A, 0x81, 0x80


def frame(data: bytes, kind: int = TEXT) -> bytes:
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
    return bytes([kind]) + size + b"\0\0\0\0" + data


async def read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        kind, size = await reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        return kind, await reader.readexactly(size)


async def answers(reader: asyncio.StreamReader, count: int) -> list[Any]:
    """What comes as text, named by what it acknowledges, or by its error."""
    found: list[Any] = []
    while len(found) < count:
        kind, data = await read(reader)
        if kind == TEXT:
            said = json.loads(data)
            found.append(said.get("ack") or said.get("error", {}).get("code") or said)
    return found


async def opened(reader: asyncio.StreamReader) -> None:
    assert await answers(reader, 1) == [{"window": 10_000}]


@pytest.mark.parametrize("piece", [1, 7, 100])
async def test_frames_in_small_pieces_are_taken_as_frames(app: App, piece: int) -> None:
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        sent = b"".join(frame(body(event_id)) for event_id in ids(3))
        for at in range(0, len(sent), piece):
            writer.write(sent[at : at + piece])
            await writer.drain()
        assert await answers(reader, 3) == ids(3)
    assert await stored(app) == ids(3)


async def test_a_ping_among_texts_is_answered_and_the_texts_keep_their_order(app: App) -> None:
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        writer.write(frame(body("e-1")) + frame(b"hello", PING) + frame(b"", PONG) + frame(body("e-2")))
        said = [await read(reader) for _ in range(3)]
        assert (PONG, b"hello") in said
        assert [json.loads(data)["ack"] for kind, data in said if kind == TEXT] == ["e-1", "e-2"]


async def test_texts_before_a_close_are_stored_although_nobody_waits_for_the_answers(app: App) -> None:
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        writer.write(b"".join(frame(body(event_id)) for event_id in ids(20)) + frame(b"\x03\xe8", CLOSE))
        await eventually(lambda: app._publish.open_sockets == 0)
    assert await stored(app) == ids(20)


async def test_fragments_and_whole_texts_take_turns_in_their_order(app: App) -> None:
    one, two, three, four = (body(event_id) for event_id in ids(4))
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        writer.write(frame(one) + frame(two[:40], 0x01) + frame(two[40:], CONTINUED) + frame(three))
        assert await answers(reader, 3) == ids(3)
        writer.write(frame(four) + frame(b"\x00", 0x82))
        assert sorted(await answers(reader, 2)) == ["e-4", "invalid_request"]


async def test_text_that_is_not_utf8_closes_the_socket_behind_what_came_before_it(app: App) -> None:
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        writer.write(frame(body("e-1")) + frame(b'{"to": "\xff"}') + frame(body("e-2")))
        while (said := await read(reader))[0] != CLOSE:
            pass
        assert said[1][:2] == struct.pack("!H", 1007)
    assert await stored(app) == ["e-1"]


async def test_frames_that_come_with_the_handshake_are_taken_in_their_order(app: App) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", app.server.port)
    try:
        writer.write(HANDSHAKE + frame(body("e-1")) + frame(body("e-2"))[:50])
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        await opened(reader)
        writer.write(frame(body("e-2"))[50:] + frame(body("e-3")))
        assert await answers(reader, 3) == ids(3)
    finally:
        writer.transport.abort()


async def test_a_refused_request_among_plain_ones_is_answered_and_the_others_are_stored(app: App) -> None:
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        sent = [body("e-1"), b'{"to": "s"}', body("e-2"), b"[]", body("e-3")]
        writer.write(b"".join(map(frame, sent)))
        found = await answers(reader, 5)
    assert sorted(found) == ["e-1", "e-2", "e-3", "invalid_request", "invalid_request"]
    assert [each for each in found if each.startswith("e-")] == ids(3)


async def test_what_finds_no_room_waits_its_turn_even_when_its_producer_is_gone(start_app: StartApp) -> None:
    app = await start_app({"journal": {"queueMax": 10}})
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        async with held_writer(app):
            writer.write(b"".join(frame(body(event_id)) for event_id in ids(200)) + frame(b"\x03\xe8", CLOSE))
            await eventually(lambda: app.journal.health.saturations > 0)
            writer.transport.abort()
        await eventually(lambda: app._publish.open_sockets == 0)
    assert await stored(app) == ids(200)


async def test_what_is_not_plain_waits_behind_texts_that_find_no_room(start_app: StartApp) -> None:
    app = await start_app({"journal": {"queueMax": 10}})
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        last = body("e-101")
        async with held_writer(app):
            writer.write(b"".join(frame(body(event_id)) for event_id in ids(100)) + frame(last[:9], 0x01))
            await eventually(lambda: app.journal.health.saturations > 0)
            writer.write(frame(b"still there?", PING) + frame(last[9:], CONTINUED) + frame(body("e-102")))
        assert await answers(reader, 102) == ids(102)


async def test_acks_in_pieces_among_other_commands_are_obeyed_in_their_order(
    app: App, start_app: StartApp, connect: Connect, client: Client
) -> None:
    for event_id in ids(6):
        await client.enqueue(event_id)
    async with websocket(app) as (reader, writer):
        writer.write(frame(b'{"credit": 6}'))
        for _ in range(6):
            await read(reader)
        sent = [
            b'{"ack": 1}',
            b'{"ack": [2, 9]}',
            b'{"nack": 3, "delayMs": 60000}',
            b'{"ack": 3}',
            b'{"ack":[4,4]}',
            b"x",
        ]
        everything = b"".join(map(frame, sent))
        for at in range(0, len(everything), 11):
            writer.write(everything[at : at + 11])
            await writer.drain()
        errors = [json.loads((await read(reader))[1])["error"] for _ in range(4)]
    assert [(error["code"], error.get("seq")) for error in errors] == [
        ("lease_not_held", 9),
        ("lease_not_held", 3),
        ("lease_not_held", 4),
        ("invalid_request", None),
    ]
    assert await stored(app, where="process_state = 'processed'") == ["e-1", "e-2", "e-4"]


async def test_a_subscriber_that_does_not_read_its_errors_is_not_read_either(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    hand_over = TextSocket.take_texts

    def counted(socket: TextSocket, take: Any, ready: Any) -> None:
        def count(texts: list[bytes], first: int) -> int:
            end: int = take(texts, first)
            taken.append(end - first)
            return end

        hand_over(socket, count, ready)

    monkeypatch.setattr(TextSocket, "take_texts", counted)
    async with websocket(app) as (reader, writer):
        writer.write(frame(b"nonsense") * 30)
        for _ in range(30):
            assert json.loads((await read(reader))[1])["error"]["code"] == "invalid_request"
    assert taken == [1] * 30


async def test_many_acknowledgements_that_are_refused_are_answered_before_more_are_looked_at(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribe, "KEYS_PER_FRAME_MAX", 10)
    asked: list[int] = []
    ack_many = app.registry.ack_many

    def counted(subscription: Any, keys: list[str | int], attempt: int | None = None) -> Any:
        asked.append(len(keys))
        return ack_many(subscription, keys, attempt)

    monkeypatch.setattr(app.registry, "ack_many", counted)
    async with websocket(app) as (reader, writer):
        writer.write(frame(b'{"ack":7}') * 25 + frame(b'{"ack":[7,7,7,7,7,7,7]}') * 3)
        for _ in range(46):
            assert json.loads((await read(reader))[1])["error"]["code"] == "lease_not_held"
    assert sum(asked) == 46
    assert max(asked) <= 10


async def test_a_producer_whose_texts_wait_for_room_need_not_answer_pings(
    start_app: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "HEARTBEAT_SECONDS", 0.1)
    app = await start_app({"journal": {"queueMax": 10}})
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        async with held_writer(app):
            writer.write(b"".join(frame(body(event_id)) for event_id in ids(50)))
            for _ in range(3):
                assert await read(reader) == (PING, b"")
                writer.write(frame(b"", PONG))  # it is not read: the texts before it wait
        assert await answers(reader, 50) == ids(50)


async def test_what_waits_for_room_when_its_producer_is_revoked_is_not_taken(start_app: StartApp) -> None:
    app = await start_app({"journal": {"queueMax": 10}})
    async with websocket(app, "/v1/publish") as (reader, writer):
        await opened(reader)
        async with held_writer(app):
            writer.write(b"".join(frame(body(event_id)) for event_id in ids(200)))
            await eventually(lambda: app.journal.health.saturations > 0)
            (socket,) = app._publish._sockets._open
            assert isinstance(socket, TextSocket)
            assert socket._texts is not None
            waiting = socket._texts
            await eventually(lambda: len(waiting._kept) > 50)
            kept = len(waiting._kept)
            revoking = asyncio.create_task(app.replace_tokens(TOKENS))
            while (said := await read(reader))[0] != CLOSE:
                pass
            assert said[1][:2] == struct.pack("!H", 4401)
            writer.write(frame(said[1], CLOSE))  # behind texts that nobody takes any more
            assert await revoking == 1
        await eventually(lambda: app._publish.open_sockets == 0)
    assert len(await stored(app)) <= 200 - kept

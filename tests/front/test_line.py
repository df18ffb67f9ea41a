"""The way out of a socket, to a reader that is slow."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_writer import StreamWriter

from broker.app import App
from broker.deliveries.outbox import DeliveryQueue
from broker.front import line
from tests.support.client import Client
from tests.support.raw import websocket
from tests.support.writer import eventually

CREDIT = b"\x81\x8c" + bytes(4) + b'{"credit":3}'


class SlowTransport:
    """Has less in it whenever somebody looks again, and never says that it is empty."""

    def __init__(self, *sizes: int) -> None:
        self._sizes = list(sizes)

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]

    def is_closing(self) -> bool:
        return False


async def test_a_reader_that_takes_long_for_one_write_and_reads_on_is_waited_for_and_so_is_who_waits_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line, "STALLED_READER_MS_MAX", 10)
    transport: Any = SlowTransport(9, 6, 6, 3, 3, 0)
    protocol = BaseProtocol(asyncio.get_running_loop())
    protocol.transport = transport
    protocol.pause_writing()
    writer: Any = StreamWriter(protocol, asyncio.get_running_loop())
    beside = asyncio.create_task(writer.drain())
    await line.Line(web.WebSocketResponse(), transport, writer).left()
    assert not beside.done()
    protocol.resume_writing()
    await beside


async def test_a_socket_that_cannot_be_sent_to_is_ended_and_its_deliveries_are_anothers(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await client.enqueue("e-1")
    take_some = DeliveryQueue._take_some

    def broken(queue: DeliveryQueue) -> bytes:
        take_some(queue)
        raise ValueError("a bug")

    async with websocket(app) as (reader, writer):
        monkeypatch.setattr(DeliveryQueue, "_take_some", broken)
        writer.write(CREDIT)
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        await eventually(lambda: app._subscribe.open_sockets == 0)
    assert "a bug" in caplog.text
    monkeypatch.undo()
    async with websocket(app) as (reader, writer):
        writer.write(CREDIT)
        async with asyncio.timeout(5):
            await reader.readuntil(b'"attempt":')
            assert await reader.readexactly(1) == b"1"  # it never left

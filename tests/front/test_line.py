"""The way out of a socket, to a reader that is slow."""

import asyncio
import socket
from contextlib import suppress

import pytest

from broker.app import App
from broker.deliveries.outbox import DeliveryQueue
from broker.front import line
from tests.support.client import Client
from tests.support.quick import connections
from tests.support.raw import websocket
from tests.support.writer import eventually

SIZE = 900_000
CREDIT = b"\x81\x8c" + bytes(4) + b'{"credit":3}'


async def test_a_reader_that_takes_long_for_one_write_and_reads_on_gets_everything(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "STALLED_READER_MS_MAX", 200)
    for number in range(3):
        await client.enqueue(f"e-{number}", payload="x" * SIZE)
    async with websocket(app) as (reader, writer):
        here = writer.get_extra_info("sockname")
        (connection,) = [each for each in connections(app) if each.peername == here]
        assert connection.transport is not None
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        writer.write(CREDIT)
        read = 0
        async with asyncio.timeout(20):
            while read < 3 * SIZE:
                read += len(await reader.readexactly(30_000))
                await asyncio.sleep(0.02)
    await eventually(lambda: app.server.connections == 1)


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

"""The way out of a socket, to a reader that is slow."""

import asyncio
import socket

import pytest

from broker.app import App
from broker.front import line
from tests.support.client import Client
from tests.support.quick import connections
from tests.support.raw import websocket
from tests.support.writer import eventually

SIZE = 900_000


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
        frame = b'{"credit":3}'
        writer.write(bytes([0x81, 0x80 | len(frame)]) + bytes(4) + frame)
        read = 0
        async with asyncio.timeout(20):
            while read < 3 * SIZE:
                read += len(await reader.readexactly(30_000))
                await asyncio.sleep(0.02)
    await eventually(lambda: app.server.connections == 1)

"""A device that speaks gRPC over a real channel: every wait has an end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc

from broker.front.skyra_v1 import skyra_pb2, skyra_pb2_grpc
from tests.support.client import PATIENCE_SECONDS

ON = {"grpc": {"port": 0}}
"""The configuration of a broker that takes gRPC on a free port."""

_STATUS = {skyra_pb2.Ack.STORED: "stored", skyra_pb2.Ack.REJECTED: "rejected", skyra_pb2.Ack.ERROR: "error"}


def frame(*events: bytes) -> skyra_pb2.EventFrame:
    """Events that are committed together."""
    return skyra_pb2.EventFrame(events=events)


def meaning(ack: skyra_pb2.Ack) -> dict[str, Any]:
    """An answer with the words of the other transports."""
    told: dict[str, Any] = {"event_id": ack.event_id, "ack_ts": ack.ack_ts, "status": _STATUS[ack.status]}
    told |= {"duplicate": ack.duplicate, "payload_conflict": ack.payload_conflict}
    found = {key: value for key, value in told.items() if value}
    if ack.HasField("error"):
        error = ack.error
        found["error"] = {
            "code": error.code,
            "message": error.message,
            "retryable": error.retryable,
            "retry_after_seconds": error.retry_after_seconds,
        }
    return found


def bearer(token: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata that shows a token."""
    return () if token is None else (("authorization", f"Bearer {token}"),)


class Device:
    """One stream of a device."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def send(self, *envelopes: bytes) -> None:
        """Envelopes, each in a frame of its own."""
        for envelope in envelopes:
            await self.call.write(frame(envelope))

    async def receive(self, count: int = 1) -> list[dict[str, Any]]:
        """The next answers."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return [meaning(await self.call.read()) for _ in range(count)]

    async def code(self) -> grpc.StatusCode:
        """The status with which the stream ends."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            code: grpc.StatusCode = await self.call.code()
            return code

    async def end(self) -> grpc.StatusCode:
        """Say that nothing more comes; how the broker ends the stream."""
        await self.call.done_writing()
        return await self.code()


class GrpcClient:
    """A channel to one broker."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel: Any = channel
        self.stub: Any = skyra_pb2_grpc.SkyraStub(channel)

    def let_go(self) -> None:
        """Hold nothing of gRPC any more: its threads end with the last object of it, and pytest keeps fixtures."""
        self.channel = self.stub = None

    async def store(self, *envelopes: bytes, token: str | None = None, within: float = 20.0) -> list[dict[str, Any]]:
        """One frame by a call of its own; its answers."""
        acks = await self.stub.Store(frame(*envelopes), metadata=bearer(token), timeout=within)
        return [meaning(ack) for ack in acks.acks]

    @asynccontextmanager
    async def ingress(self, token: str | None = None, within: float | None = None) -> AsyncIterator[Device]:
        """A stream, until the end of the block."""
        call = self.stub.Ingress(metadata=bearer(token), timeout=within)
        try:
            yield Device(call)
        finally:
            call.cancel()


@asynccontextmanager
async def dial(address: str, options: Sequence[tuple[str, Any]] = ()) -> AsyncIterator[GrpcClient]:
    """A channel, until the end of the block."""
    async with grpc.aio.insecure_channel(address, options=list(options)) as channel:
        client = GrpcClient(channel)
        try:
            yield client
        finally:
            client.let_go()


async def status_of(call: Any) -> grpc.StatusCode:
    """The status of a call that must fail."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    raise AssertionError("the call succeeded")

"""`courier.skyra.v1.Skyra`: the events of devices (000) over gRPC, acknowledged after the commit.

A frame holds envelopes as the bytes that the device wrote, and is committed together. Frames come as bytes too, and
are read here: so one that is no EventFrame is refused like any other, and its stream goes on. The stream is read
one frame at a time, and not at all while the window or the ingest queue is full: HTTP/2 slows the device down.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
from google.protobuf.message import DecodeError
from multidict import CIMultiDict

from broker.admission.auth import Authenticator, Principal
from broker.errors import CourierError, Draining, InvalidRequest, RequestTimeout
from broker.front.answers import Answers
from broker.front.grpc_codes import abort, ack_bytes, ack_message, status_code
from broker.front.ingress import SkyraIntake, Taken, shown
from broker.front.skyra_v1 import skyra_pb2
from broker.front.sockets import Objection
from broker.limits import PUBLISH_WINDOW, STALLED_READER_MS_MAX

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]

WINDOW_METADATA = "courier-window"
"""The initial metadata that tells how many events may be unanswered."""


class Stream:
    """One open call of `Ingress`: its caller, its answers, and why it ends before the client ends it."""

    def __init__(self, principal: Principal, context: Context) -> None:
        self.principal = principal
        self.answers = Answers()
        self.ended: asyncio.Future[CourierError] = asyncio.get_running_loop().create_future()
        self._context = context

    def end(self, error: CourierError) -> None:
        """End the call with an error; the first one counts."""
        if not self.ended.done():
            self.ended.set_result(error)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write answers at the speed of the client; raise ConnectionError when it reads none for too long."""
        for frame in frames:
            try:
                async with asyncio.timeout(STALLED_READER_MS_MAX / 1000):
                    await self._context.write(frame)
            except TimeoutError:
                raise ConnectionAbortedError("the client reads nothing") from None
            except (grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
                raise ConnectionResetError("the client went away") from None

    def cut(self) -> None:
        """Let go of a client that does not read its answers."""
        self.end(RequestTimeout("the answers were not read; connect again, and send what was not acknowledged"))


class GrpcIngress:
    """The two methods, and the streams that are open."""

    def __init__(self, intake: SkyraIntake, authenticator: Authenticator) -> None:
        self._intake = intake
        self._authenticator = authenticator
        self._streams: set[Stream] = set()
        self._closing = False
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls that have ended, by method and status code."""

    def handler(self) -> grpc.GenericRpcHandler:
        """The service, for a server."""
        service = skyra_pb2.DESCRIPTOR.services_by_name["Skyra"].full_name
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Ingress": grpc.stream_stream_rpc_method_handler(cast(Any, self.ingress)),
            "Store": grpc.unary_unary_rpc_method_handler(
                cast(Any, self.store), response_serializer=skyra_pb2.Acks.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler(service, methods)

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    async def store(self, frame: bytes, context: Context) -> skyra_pb2.Acks:
        """One frame, answered when it is on disk."""
        acks = skyra_pb2.Acks()
        async with self._call("Store", context) as principal:
            taken = self._take(principal, frame)
            answers = taken.answers(await self._intake.outcome(taken))
            acks.acks.extend(ack_message(shown(answer)) for answer in answers)
        return acks

    async def ingress(self, _requests: object, context: Context) -> None:
        """Serve one stream until the client ends it, or may not stay."""
        async with self._call("Ingress", context) as principal:
            stream = Stream(principal, context)
            self._streams.add(stream)
            sender = asyncio.create_task(stream.answers.send(stream))
            reader = asyncio.create_task(self._receive(stream, context))
            try:
                await asyncio.wait((reader, stream.ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._streams.discard(stream)
                for task in (reader, sender):
                    task.cancel()
                outcome, _ = await asyncio.gather(reader, sender, return_exceptions=True)
            if stream.ended.done():
                raise stream.ended.result()
            if isinstance(outcome, Exception):
                raise outcome

    async def _receive(self, stream: Stream, context: Context) -> None:
        await context.send_initial_metadata(((WINDOW_METADATA, str(PUBLISH_WINDOW)),))
        while (frame := await context.read()) is not grpc.aio.EOF:
            await stream.answers.window()  # refusals count too: who does not read them is not read either
            await self._intake.submit(self._take(stream.principal, frame), stream.answers, ack_bytes)
        await stream.answers.sent()

    def _take(self, principal: Principal, frame: bytes) -> Taken:
        try:
            events = skyra_pb2.EventFrame.FromString(frame).events
        except DecodeError:
            return self._intake.refuse(principal, frame, InvalidRequest("this is not an EventFrame of skyra.proto"))
        return self._intake.take_apart(principal, events)

    @asynccontextmanager
    async def _call(self, method: str, context: Context) -> AsyncIterator[Principal]:
        """Who calls; what goes wrong ends the call with its status."""
        code = grpc.StatusCode.CANCELLED  # what a call comes to that its client gives up, or lets run past its deadline
        try:
            try:
                if self._closing:
                    raise Draining("the broker is shutting down; call its successor")
                yield self._principal(context)
                code = grpc.StatusCode.OK
            except CourierError as error:
                code = status_code(error)
                await abort(context, error)
            except (grpc.aio.AbortError, grpc.RpcError):
                raise
            except Exception:
                log.exception("gRPC %s failed", method)
                code = grpc.StatusCode.INTERNAL
                await abort(context, CourierError("the broker met an error of its own; its log has the details"))
        finally:
            self.calls[method, code.name] += 1

    def _principal(self, context: Context) -> Principal:
        """The caller that the metadata proves, with the words of the HTTP headers."""
        metadata = context.invocation_metadata() or ()
        return self._authenticator.principal(
            CIMultiDict((key, value) for key, value in metadata if isinstance(value, str))
        )

    async def revoke(self, objection: Objection) -> int:
        """End the streams of callers that may not stay; how many those were."""
        refused = [(stream, error) for stream in self._streams if (error := objection(stream.principal)) is not None]
        for stream, error in refused:
            stream.end(error)
        return len(refused)

    async def close(self) -> None:
        """Answer what was received, then end every stream."""
        self._closing = True
        await asyncio.gather(*(stream.answers.settled() for stream in tuple(self._streams)))
        for stream in tuple(self._streams):
            stream.end(Draining("the broker is shutting down; connect to its successor"))

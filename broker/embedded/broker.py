"""Broker: the whole core inside a program, without a socket.

async with Broker.open("data") as broker:
    await broker.enqueue("jobs/render", {"page": 1})
    async with broker.subscribe("jobs/*") as reader:
        async for delivery in reader:
            print(delivery.payload)
            await delivery.ack()
"""

import asyncio
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from broker.clock import Clock, SystemClock
from broker.config import Config, from_values
from broker.contracts.inbound import InboundEvent
from broker.core import Core, DurableCore
from broker.embedded.duplex import Duplex
from broker.embedded.event import Envelope, Event, Receipt, encode, new_id
from broker.embedded.pipe import Pipe
from broker.embedded.producer import Producer, receipt, receipts_for
from broker.embedded.reader import Ack, Reader
from broker.errors import CourierError, Draining, InvalidRequest, StorageFailed, TooLarge, UnknownStream
from broker.limits import COMMIT_BATCH_MAX, PIPE_WINDOW_DEFAULT, READER_CREDIT_DEFAULT
from broker.ops.bus_metrics import BusMetrics
from broker.ops.metrics import Metrics
from broker.ops.schedule_metrics import ScheduleMetrics
from broker.ops.stream_metrics import StreamMetrics

DataDir = str | os.PathLike[str] | None


class Broker:
    """An open broker. It belongs to the event loop that it was opened on. Make one with `Broker.open`."""

    def __init__(self, core: Core, config: Config) -> None:
        self._core = core
        self._producer = Producer(core)
        self._readers: dict[Reader, None] = {}
        self._duplexes: dict[Duplex, None] = {}
        self._closing: asyncio.Future[None] | None = None
        self.bus = self._producer.bus(config.bus)
        """Topics with handlers of this program; recovered and started."""
        self.metrics = Metrics()
        """Figures of the streams, of what is put off and of the bus: `await metrics.render()`, for Prometheus."""
        labels_max = config.metrics.max_streams
        streams = StreamMetrics(core.registry, labels_max)
        self.metrics.add(streams, streams.refresh)
        schedule = ScheduleMetrics(core.scheduler.tally, core.scheduler.waiting)
        self.metrics.add(schedule, schedule.refresh)
        self.metrics.add(BusMetrics(self.bus, labels_max))
        core.on_failed = self._fail

    @classmethod
    def open(
        cls, data_dir: DataDir, config: Config | Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> "Opening":
        """Open the journal in `data_dir`; without one (`None`), everything is in memory and lost with the process.

        For `async with`, or to be awaited and then closed with `close`. `config` is a `Config`, or a mapping in the
        shape of the configuration file; its `server` and `auth` do not matter here. Raise ConfigError when
        the configuration or the directory cannot be used, or another broker uses the directory.
        """
        return Opening(cls, data_dir, config, clock or SystemClock())

    # Events in.

    async def enqueue(
        self,
        to: str,
        payload: Any,
        *,
        type: str = "message",  # noqa: A002 - the name that the envelope has for it
        id: str | None = None,  # noqa: A002 - the name that the envelope has for it
        sender: str | None = None,
        corr: str | None = None,
        tags: Sequence[str] = (),
        headers: Mapping[str, Any] | None = None,
        partition_key: str | None = None,
    ) -> Receipt:
        """Put one event on a stream; return when it is kept. `Event` says what the arguments are.

        An `id` of your own makes a repetition harmless. Raise the CourierError that says why it was not taken; after
        one whose status is 500 or more, and after a cancellation, it may be there or not: enqueue it again.
        """
        event = Event(
            to,
            payload,
            type=type,
            id=new_id() if id is None else id,
            sender=sender,
            corr=corr,
            tags=tags,
            headers=headers,
            partition_key=partition_key,
        )
        return await self.enqueue_envelope(to, event.encode())

    async def enqueue_envelope(self, to: str, envelope: Envelope) -> Receipt:
        """The same for a whole envelope. Bytes are kept as they are."""
        self._check_open()
        event = self._producer.admit(to, encode(envelope))
        answer = receipt(event, 0, await self._producer.keep((event,)))
        if isinstance(answer, CourierError):
            raise answer
        return answer

    async def enqueue_many(self, events: Iterable[Event | tuple[str, Envelope]]) -> list[Receipt]:
        """Put events on their streams, durable ones in one group commit; their receipts, in order.

        Each is an `Event`, or a stream with a whole envelope. If one of them cannot pass, none is taken, and the error
        has its `position` in `detail`. A stream in memory that is full may refuse some: then the error of the first
        has its `position` too, the others are kept, and to enqueue all of them again is harmless.
        """
        self._check_open()
        given = list(islice(events, COMMIT_BATCH_MAX + 1))
        admitted = self._producer.admit_many(given[:COMMIT_BATCH_MAX]) or self._admit_each(given[:COMMIT_BATCH_MAX])
        if len(given) > COMMIT_BATCH_MAX:
            raise TooLarge(f"more than {COMMIT_BATCH_MAX} events; split them")
        if not admitted:
            return []
        return receipts_for(admitted, await self._producer.keep(admitted))

    def _admit_each(self, events: Sequence[Event | tuple[str, Envelope]]) -> list[InboundEvent]:
        admitted: list[InboundEvent] = []
        for position, event in enumerate(events):
            to, envelope = (event.to, event) if isinstance(event, Event) else event
            try:
                raw = envelope.encode() if isinstance(envelope, Event) else encode(envelope)
                admitted.append(self._producer.admit(to, raw))
            except CourierError as error:
                error.detail["position"] = position
                raise
        return admitted

    # Events out.

    def subscribe(
        self,
        pattern: str,
        *,
        credit: int = READER_CREDIT_DEFAULT,
        ack: Ack = "manual",
        group: str | None = None,
        from_start: bool = True,
    ) -> Reader:
        """A reader of a stream, or of all streams of a pattern such as `agents/*/inbox`; for `async with`.

        With a `group`, it reads the consumer group's own copy of them.
        """
        self._check_open()
        return Reader(
            self._core.registry,
            pattern,
            credit=credit,
            ack=ack,
            group=group,
            from_start=from_start,
            on_start=self._start_reader,
            on_end=lambda reader: self._readers.pop(reader, None),
        )

    def _start_reader(self, reader: Reader) -> None:
        self._check_open()
        self._readers[reader] = None

    def pipe(self, subscribe: str | None = None, *, window: int = PIPE_WINDOW_DEFAULT) -> Pipe:
        """A duplex: commands such as `{"enqueue": …}` in, messages such as `{"deliver": …}` out.

        With a stream or a pattern to subscribe to, at most `window` events are leased to it that were not read.
        """
        self._check_open()
        duplex = Duplex(self._core, on_end=lambda duplex: self._duplexes.pop(duplex, None))
        if subscribe is not None:
            duplex.subscribe(subscribe, window)
        self._duplexes[duplex] = None
        return Pipe(duplex)

    # Looking.

    def streams(self) -> list[str]:
        """The name of every stream, in alphabetical order."""
        return self._core.registry.names()

    def stats(self, stream: str) -> dict[str, Any]:
        """A stream in figures (003 §7.1), as `GET /v1/streams/NAME/stats` has them; raise UnknownStream."""
        figures = self._core.registry.stats(stream)
        if figures is None:
            raise UnknownStream(f"there is no stream {stream!r} now; it comes into being with its first event")
        return figures

    @property
    def failure(self) -> str | None:
        """Why the journal cannot be written any more; None while all is well."""
        return self._core.failure

    # The end.

    async def close(self) -> None:
        """Take nothing new, keep and answer what was submitted, give back what is leased, close the journal.

        Raise StorageFailed, after all that, when the journal has failed: acks may not have been written.
        """
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)  # a cancellation does not leave it half open
        if self._core.failure is not None:
            raise StorageFailed(self._core.failure)

    async def _close(self) -> None:
        await self.bus.stop()  # handlers that are at work may still publish
        self._core.gate.draining = True
        for reader in tuple(self._readers):
            reader.end()
        for duplex in tuple(self._duplexes):
            await duplex.close()
        await self._producer.settled()
        await self._core.close()

    def _fail(self, reason: str) -> None:
        self.bus.fail()
        for reader in tuple(self._readers):
            reader.end(reason)
        for duplex in tuple(self._duplexes):
            duplex.fail(reason)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Draining("this broker is closed; open it again")


class Opening:
    """What `Broker.open` returns: awaited, or entered as a block, it gives the broker."""

    def __init__(
        self, kind: type[Broker], data_dir: DataDir, config: Config | Mapping[str, Any] | None, clock: Clock
    ) -> None:
        self._kind = kind
        self._data_dir = data_dir
        self._config = config
        self._clock = clock
        self._broker: Broker | None = None

    async def _open(self) -> Broker:
        config = _config(self._config)
        if self._data_dir is None:
            return await self._started(Core(config, self._clock), config)
        opening = asyncio.ensure_future(DurableCore.open(Path(self._data_dir), config, self._clock))
        try:
            return await self._started(await asyncio.shield(opening), config)
        except asyncio.CancelledError:  # a thread is at it, and cannot be stopped: see it through, then undo it
            await (await opening).close()
            raise

    async def _started(self, core: Core, config: Config) -> Broker:
        broker = self._kind(core, config)
        core.scheduler.start()
        await broker.bus.recover()
        await broker.bus.start()
        return broker

    def __await__(self) -> Generator[Any, None, Broker]:
        return self._open().__await__()

    async def __aenter__(self) -> Broker:
        self._broker = await self._open()
        return self._broker

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._broker is not None
        try:
            await self._broker.close()
        except StorageFailed:
            if error is None:  # else the block's own exception goes on; it most likely is the same
                raise


def _config(given: Config | Mapping[str, Any] | None) -> Config:
    if given is None:
        return Config()
    if isinstance(given, Config):
        return given
    if isinstance(given, Mapping):
        return from_values(given)
    raise InvalidRequest(f"config must be a Config or a mapping, not {type(given).__name__}; see broker.config.load")

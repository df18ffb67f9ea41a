"""The composition root: the only file that knows every room.

It builds the V from the bottom up (journal, streams, gate, front), wires the callbacks by which data
rises again, and takes it down in the opposite order.
"""

import asyncio
import logging
from pathlib import Path

from broker.admission.auth import Authenticator
from broker.admission.gate import Gate
from broker.admission.quota import quota_for
from broker.clock import Clock, SystemClock
from broker.config import Auth, Config
from broker.contracts.pixel_schemas import PixelSchemas, load_schemas
from broker.front import pixel
from broker.front.asyncapi import asyncapi
from broker.front.cloudevents import CloudEventsEndpoint
from broker.front.dead_letters import DeadLetterEndpoints
from broker.front.documents import Documents
from broker.front.enqueue import Enqueue
from broker.front.guard import Guard
from broker.front.ingress import DeviceEvents, Ingress, SkyraIntake
from broker.front.openapi import openapi
from broker.front.pixel import PixelEvents
from broker.front.probes import PROMISES, Probes
from broker.front.publish import Publish
from broker.front.queries import Queries
from broker.front.server import Server, check_exposure
from broker.front.subscribe import Subscribe
from broker.journal import pixel_servers, reader
from broker.journal.dead_letters import DeadLetters
from broker.journal.journal import Journal
from broker.journal.rejections import Rejections
from broker.journal.retention import Retention
from broker.streams.memory import Intake
from broker.streams.registry import Registry

log = logging.getLogger(__name__)


class App:
    """A running broker. Make one with `App.start`, end it with `drain`."""

    def __init__(self, config: Config, journal: Journal, clock: Clock, schemas: PixelSchemas | None) -> None:
        self.config = config
        self.journal = journal
        self._clock = clock
        self._authenticator = Authenticator(config.auth, config.pixel.api_key_header)
        self.registry = Registry(config.streams, clock, journal)
        intake = Intake(journal, self.registry, config.journal.dedupe_entries)
        self.gate = Gate(intake, clock, self.registry.open)
        self.gate.quota = quota_for(config.auth, config.streams.per_stream_caps, clock)
        self.gate.is_in_memory = self.registry.is_in_memory
        self.rejections = Rejections(clock)
        guard = Guard(config.server, self._authenticator)
        self.server = Server(config.server, guard)
        self.failed: asyncio.Event = asyncio.Event()
        """Set when the journal has failed for good and the process must end."""
        self._publish = Publish(self.gate, journal.room)
        self._skyra = SkyraIntake(self.gate, self.rejections, clock)
        self._ingress = Ingress(self._skyra, journal.room)
        self.pixel = PixelEvents(self.gate, self.rejections, clock, schemas, config.pixel.payload_schemas)
        guard.speakers["/plugin/events"] = pixel.refusal
        self.effect = journal.effects.register
        """`@app.effect("pixel_control.lifecycle.*")` registers an effect: see broker/journal/effects.py."""
        for kind in (pixel_servers.REGISTRATION, pixel_servers.HEARTBEAT):
            self.effect(kind)(pixel_servers.note_server)
        self._subscribe = Subscribe(self.registry)
        self._queries = Queries(self.registry, journal.readers)
        self._dead_letters = DeadLetterEndpoints(DeadLetters(journal, clock))
        self._probes = Probes(journal.health, journal.synchronous, lambda: self.gate.draining)
        self._retention = Retention(journal, config.journal.retention, clock)
        self._sweeping: asyncio.Task[None] | None = None
        journal.on_events = self.registry.committed
        journal.on_fatal = lambda _reason: self.failed.set()
        self._add_routes()

    def _add_routes(self) -> None:
        route = self.server.route
        route("GET", "/livez", self._probes.livez)
        route("GET", "/readyz", self._probes.readyz)
        route("POST", "/v1/enqueue", Enqueue(self.gate).handle)
        route("GET", "/v1/publish", self._publish.handle)
        route("GET", "/v1/subscribe", self._subscribe.handle)
        route("GET", "/v1/ingress", self._ingress.handle)
        route("POST", "/v1/events", DeviceEvents(self._skyra).handle)
        route("POST", "/plugin/events", self.pixel.handle)
        cloudevents = CloudEventsEndpoint(self.gate, self._clock, self.config.cloudevents.stream)
        route("POST", "/v1/cloudevents", cloudevents.handle)

        route("GET", "/v1/streams", self._queries.list_streams)
        route("GET", "/v1/streams/{stream:.+}/stats", self._queries.stats)
        route("GET", "/v1/streams/{stream:.+}/events", self._queries.events)
        route("GET", "/v1/receipts/{source:[^/]+}/{id:[^/]+}", self._queries.receipt)
        route("GET", "/v1/dead-letters", self._dead_letters.list_letters)
        route("POST", "/v1/dead-letters/replay", self._dead_letters.replay_many)
        route("POST", "/v1/dead-letters/discard", self._dead_letters.discard_many)
        route("GET", "/v1/dead-letters/{seq:[^/]+}", self._dead_letters.inspect)
        route("POST", "/v1/dead-letters/{seq:[^/]+}/replay", self._dead_letters.replay)
        route("POST", "/v1/dead-letters/{seq:[^/]+}/discard", self._dead_letters.discard)
        route("GET", "/openapi.json", Documents(openapi(self.config.pixel.api_key_header)).handle)
        route("GET", "/asyncapi.json", Documents(asyncapi()).handle)

    @classmethod
    async def start(cls, config: Config, clock: Clock | None = None) -> "App":
        """Open the journal, take up what was left unfinished, and listen.

        Raise ConfigError when the configuration cannot be used here.
        """
        check_exposure(config.server.host, has_tokens=bool(config.auth.tokens))
        clock = clock or SystemClock()
        schemas = await asyncio.to_thread(_pixel_schemas, config)
        journal = await Journal.open(Path(config.data), config.journal, clock)
        try:
            app = cls(config, journal, clock, schemas)
            await app._recover(clock)
            await app.server.start()
            app._sweeping = asyncio.create_task(app._retention.run())
        except BaseException:
            await journal.close()
            raise
        return app

    async def _recover(self, clock: Clock) -> None:
        for name, pending, last_seq in await self.journal.readers.run(reader.pending_streams):
            self.registry.recover(name, pending, last_seq)
        backlog = self.journal.backlog
        oldest = 0.0 if backlog.oldest_pending_at is None else (clock.wall_us() - backlog.oldest_pending_at) / 1e6
        log.info(
            "journal %s recovered: %d pending, %d dead letters, oldest pending %.0f s, last sequence %d",
            self.journal.path,
            backlog.pending,
            backlog.dead_letters,
            oldest,
            backlog.last_seq,
        )

    async def replace_tokens(self, auth: Auth) -> int:
        """Let these tokens in and no others; close the sockets of the others, and say how many those were."""
        self._authenticator.replace_tokens(auth)
        if self.gate.quota is None:
            self.gate.quota = quota_for(auth, self.config.streams.per_stream_caps, self._clock)
        else:
            self.gate.quota.replace_tokens(auth)
        objection = self._authenticator.objection
        sockets = (self._publish, self._ingress, self._subscribe)
        return sum(await asyncio.gather(*(each.revoke(objection) for each in sockets)))

    @property
    def promise(self) -> str:
        """What an acknowledgement of this broker means."""
        return PROMISES[self.journal.synchronous]

    async def drain(self) -> None:
        """Take nothing new, commit and acknowledge what was received, close the sockets, close the journal."""
        self.gate.draining = True
        await self.server.stop_listening()
        await asyncio.gather(self._publish.close(), self._ingress.close())
        await self._subscribe.close()
        await self.server.close()
        await self.registry.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self.journal.close()


def _pixel_schemas(config: Config) -> PixelSchemas | None:
    """The schemas of the Pixel contract; None where the library that checks them is not to be had."""
    try:
        return load_schemas(None if config.pixel.schemas is None else Path(config.pixel.schemas))
    except ImportError:
        log.warning("jsonschema-rs is not installed: POST /plugin/events is answered with 503 until it is")
        return None

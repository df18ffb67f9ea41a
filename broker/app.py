"""The composition root: the only file that knows every room.

It builds the V from the bottom up (journal, streams, gate, front), wires the callbacks by which data
rises again, and takes it down in the opposite order.
"""

import asyncio
import logging
from pathlib import Path

from broker.admission.auth import Authenticator
from broker.admission.quota import quota_for
from broker.clock import Clock, SystemClock
from broker.config import Auth, Config
from broker.contracts.pixel_schemas import PixelSchemas, load_schemas
from broker.core import DurableCore
from broker.front import pixel
from broker.front.asyncapi import asyncapi
from broker.front.cloudevents import CloudEventsEndpoint
from broker.front.dead_letters import DeadLetterEndpoints
from broker.front.documents import Documents
from broker.front.enqueue import Enqueue
from broker.front.figures import Figures
from broker.front.groups import GroupEndpoints
from broker.front.grpc_door import grpc_server
from broker.front.guard import Guard
from broker.front.ingress import DeviceEvents, Ingress, SkyraIntake
from broker.front.metrics import MetricsEndpoint
from broker.front.openapi import openapi
from broker.front.pixel import PixelEvents
from broker.front.probes import PROMISES, Probes
from broker.front.publish import Publish
from broker.front.queries import Queries
from broker.front.quick_lane import QuickLane
from broker.front.recurring import RecurringEndpoints
from broker.front.rejections import RejectedReceipts
from broker.front.replies import REFUSALS
from broker.front.schedule import ScheduleEndpoints
from broker.front.server import Server, check_exposure
from broker.front.sources import SourceEndpoints
from broker.front.subscribe import Subscribe
from broker.front.tail import Tail
from broker.front.triggers import TriggerEndpoints
from broker.front.views import ViewEndpoints
from broker.front.why import Why
from broker.journal.dead_letters import DeadLetters
from broker.journal.effect_modules import load_effects
from broker.ops import exposition
from broker.ops.contract_metrics import ContractMetrics
from broker.ops.events_log_metrics import EventLogMetrics
from broker.ops.front_metrics import Front, FrontMetrics
from broker.ops.grpc_metrics import GrpcMetrics
from broker.ops.journal_metrics import JournalMetrics
from broker.ops.metrics import Metrics
from broker.ops.process import ProcessMetrics
from broker.ops.schedule_metrics import ScheduleMetrics
from broker.ops.source_metrics import SourceMetrics
from broker.ops.stream_metrics import StreamMetrics
from broker.ops.trigger_metrics import TriggerMetrics
from broker.ops.view_metrics import ViewMetrics
from broker.sources.supervisor import Supervisor

log = logging.getLogger(__name__)


class App:
    """A running broker. Make one with `App.start`, end it with `drain`."""

    def __init__(self, config: Config, core: DurableCore, schemas: PixelSchemas | None) -> None:
        self.config = config
        self.core = core
        self.journal = journal = core.journal
        self.registry = core.registry
        self.gate = core.gate
        self.triggers = core.triggers
        self.effect = core.effect
        self._authenticator = Authenticator(config.auth, config.pixel.api_key_header)
        guard = Guard(config.server, self._authenticator)
        guard.speakers["/plugin/events"] = pixel.refusal
        self.server = Server(config.server, guard)
        self.server.lane = QuickLane(
            self.gate, self._authenticator, guard, self.server.traffic, journal.fits, config.server.max_body_bytes
        )
        self.failed = core.failed
        """Set when the journal has failed for good and the process must end."""
        self._publish = Publish(self.gate, journal.has_room, journal.room, config.journal.queue_max)
        self._skyra = SkyraIntake(self.gate, core.rejections, core.clock, journal.room)
        self._ingress = Ingress(self._skyra)
        self.grpc = grpc_server(config, self._skyra, self._authenticator)
        """The server of gRPC; None when the configuration does not ask for it."""
        self.pixel = PixelEvents(self.gate, core.rejections, core.clock, schemas, config.pixel.payload_schemas)
        self.sources = Supervisor(config.sources, journal, self.gate, core.rejections, core.clock)
        self._subscribe = Subscribe(self.registry)
        self._tail = Tail(core.tails, journal.readers)
        self._figures = Figures(self.registry, journal.readers, core.clock)
        self._groups = GroupEndpoints(self.registry)
        self._queries = Queries(self.registry, journal.readers)
        self._dead_letters = DeadLetterEndpoints(DeadLetters(journal, core.clock, self.registry.replayed))
        self._probes = Probes(journal.health, journal.synchronous, lambda: self.gate.draining)
        self.views = core.views
        self._view_endpoints = ViewEndpoints(self.views)
        self.metrics = Metrics()
        self._add_collectors()
        self._add_routes()

    def _add_collectors(self) -> None:
        streams = StreamMetrics(self.registry, self.config.metrics.max_streams)
        self.metrics.add(streams, streams.refresh)
        journal = JournalMetrics(
            self.journal,
            self.core.retention,
            self.core.clock,
            queue_max=self.config.journal.queue_max,
            memory_duplicates=lambda: self.core.intake.duplicates,
        )
        self.metrics.add(journal, journal.refresh)
        front = Front(
            requests=self.server.traffic.answered,
            refusals=REFUSALS,
            quota_refusals=lambda: {} if self.gate.quota is None else self.gate.quota.refusals,
            auth_failures=self._authenticator.failures,
            connections=lambda: self.server.connections,
            connections_refused=lambda: self.server.connections_refused,
            connections_max=self.config.server.max_connections,
            sockets={
                "ingress": lambda: self._ingress.open_sockets,
                "live": lambda: self._view_endpoints.open_sockets,
                "publish": lambda: self._publish.open_sockets,
                "subscribe": lambda: self._subscribe.open_sockets,
                "tail": lambda: self._tail.open_sockets,
            },
        )
        self.metrics.add(FrontMetrics(front))
        if self.grpc is not None:
            ingress = self.grpc.ingress
            self.metrics.add(GrpcMetrics(lambda: ingress.open_streams, ingress.calls))
        self.metrics.add(ViewMetrics(self.views))
        self.metrics.add(TriggerMetrics(self.triggers.rules))
        schedule = ScheduleMetrics(self.core.scheduler.tally, self.core.scheduler.waiting)
        self.metrics.add(schedule, schedule.refresh)
        self.metrics.add(SourceMetrics(self.sources.states))
        self.metrics.add(ContractMetrics(self.core.rejections, self.journal.effects, self.pixel.payload_violations))
        if self.core.events_log is not None:
            self.metrics.add(EventLogMetrics(self.core.events_log))
        process = ProcessMetrics()
        self.metrics.add(process, process.refresh)

    def _add_routes(self) -> None:
        route = self.server.route
        route("GET", "/livez", self._probes.livez)
        route("GET", "/readyz", self._probes.readyz)
        route("POST", "/v1/enqueue", Enqueue(self.gate).handle)
        route("GET", "/v1/publish", self._publish.handle)
        route("GET", "/v1/subscribe", self._subscribe.handle)
        route("GET", "/v1/tail", self._tail.handle)
        route("GET", "/v1/stats", self._figures.handle)
        route("GET", "/v1/ingress", self._ingress.handle)
        route("POST", "/v1/events", DeviceEvents(self._skyra).handle)
        route("POST", "/plugin/events", self.pixel.handle)
        cloudevents = CloudEventsEndpoint(self.gate, self.core.clock, self.config.cloudevents.stream)
        route("POST", "/v1/cloudevents", cloudevents.handle)

        route("GET", "/v1/streams", self._queries.list_streams)
        route("GET", "/v1/streams/{stream:.+}/stats", self._queries.stats)
        route("GET", "/v1/streams/{stream:.+}/events", self._queries.events)
        route("GET", "/v1/streams/{stream:.+}/groups", self._groups.of_stream)
        route("GET", "/v1/receipts", RejectedReceipts(self.journal.readers).list_receipts)
        route("GET", "/v1/receipts/{source:[^/]+}/{id:[^/]+}", self._queries.receipt)
        route("GET", "/v1/groups", self._groups.list_groups)
        route("DELETE", "/v1/groups/{group:[^/]+}", self._groups.delete)
        route("GET", "/v1/dead-letters", self._dead_letters.list_letters)
        route("POST", "/v1/dead-letters/replay", self._dead_letters.replay_many)
        route("POST", "/v1/dead-letters/discard", self._dead_letters.discard_many)
        route("GET", "/v1/dead-letters/{seq:[^/]+}", self._dead_letters.inspect)
        route("POST", "/v1/dead-letters/{seq:[^/]+}/replay", self._dead_letters.replay)
        route("POST", "/v1/dead-letters/{seq:[^/]+}/discard", self._dead_letters.discard)
        triggers = TriggerEndpoints(self.triggers, self.core.rule_store, self.core.clock)
        route("GET", "/v1/triggers", triggers.list_rules)
        route("POST", "/v1/triggers/test", triggers.test)
        route("GET", "/v1/triggers/{id:[^/]+}", triggers.show)
        route("PUT", "/v1/triggers/{id:[^/]+}", triggers.put)
        route("DELETE", "/v1/triggers/{id:[^/]+}", triggers.delete)
        schedule = ScheduleEndpoints(self.core.scheduler, self.journal.readers, self.core.clock)
        route("POST", "/v1/schedule", schedule.put_off)
        route("GET", "/v1/schedule", schedule.list_waiting)
        route("GET", "/v1/schedule/{id:[^/]+}", schedule.show)
        route("DELETE", "/v1/schedule/{id:[^/]+}", schedule.cancel)
        recurring = RecurringEndpoints(self.core.recurring, self.core.clock)
        route("GET", "/v1/recurring", recurring.list_all)
        route("GET", "/v1/recurring/{name:[^/]+}", recurring.show)
        route("PUT", "/v1/recurring/{name:[^/]+}", recurring.put)
        route("DELETE", "/v1/recurring/{name:[^/]+}", recurring.delete)
        route("GET", "/v1/sources", SourceEndpoints(self.sources.states).list_sources)
        why = Why(self.journal.readers, self.registry, self.triggers.rules)
        route("GET", "/v1/why", why.find)
        route("GET", "/v1/why/{source:[^/]+}/{id:[^/]+}", why.identity)
        route("GET", "/v1/snapshot", self._view_endpoints.snapshot)
        route("GET", "/v1/live", self._view_endpoints.live)
        route("GET", "/metrics", MetricsEndpoint(self.metrics.render, exposition.CONTENT_TYPE).handle)
        route("GET", "/openapi.json", Documents(openapi(self.config.pixel.api_key_header)).handle)
        route("GET", "/asyncapi.json", Documents(asyncapi()).handle)

    @classmethod
    async def start(cls, config: Config, clock: Clock | None = None) -> "App":
        """Open the journal, take up what was left unfinished, and listen.

        Raise ConfigError when the configuration cannot be used here.
        """
        check_exposure(config.server.host, has_tokens=bool(config.auth.tokens))
        check_exposure(config.grpc.host, has_tokens=bool(config.auth.tokens), key="grpc.host")
        schemas = await asyncio.to_thread(_pixel_schemas, config)
        effects = await asyncio.to_thread(load_effects, config.effects)
        core = await DurableCore.open(Path(config.data), config, clock or SystemClock())
        for each in effects:
            core.effect(each.pattern)(each.effect)
        try:
            app = cls(config, core, schemas)
            await app._listen()
        except BaseException:
            await core.close()
            raise
        return app

    async def _listen(self) -> None:
        await self.server.start()
        if self.grpc is not None:
            try:
                await self.grpc.start()
            except BaseException:
                await self.server.stop_listening()
                await self.server.close()
                raise
        self.sources.start()

    async def replace_tokens(self, auth: Auth) -> int:
        """Let these tokens in and no others; close what the others have open, and say how much that was."""
        self._authenticator.replace_tokens(auth)
        if self.gate.quota is None:
            self.gate.quota = quota_for(auth, self.config.streams.per_stream_caps, self.core.clock)
        else:
            self.gate.quota.replace_tokens(auth)
        objection = self._authenticator.objection
        sockets = (self._publish, self._ingress, self._subscribe, self._tail, self._view_endpoints)
        closed = sum(await asyncio.gather(*(each.revoke(objection) for each in sockets)))
        return closed if self.grpc is None else closed + await self.grpc.ingress.revoke(objection)

    def reopen_logs(self) -> None:
        """Go on in new files, where somebody has renamed those that were written."""
        if self.core.events_log is not None:
            self.core.events_log.reopen()

    @property
    def promise(self) -> str:
        """What an acknowledgement of this broker means."""
        return PROMISES[self.journal.synchronous]

    async def drain(self) -> None:
        """Take nothing new, commit and acknowledge what was received, close the sockets, close the journal."""
        await self.sources.close()
        self.gate.draining = True
        await self.server.stop_listening()
        await asyncio.gather(self._publish.close(), self._ingress.close(), self._close_grpc())
        await self._subscribe.close()
        await self._view_endpoints.close()
        await self._tail.close()
        await self.server.close()
        await self.core.close()

    async def _close_grpc(self) -> None:
        if self.grpc is not None:
            await self.grpc.close()


def _pixel_schemas(config: Config) -> PixelSchemas | None:
    """The schemas of the Pixel contract; None where the library that checks them is not to be had."""
    try:
        return load_schemas(None if config.pixel.schemas is None else Path(config.pixel.schemas))
    except ImportError:
        log.warning("jsonschema-rs is not installed: POST /plugin/events is answered with 503 until it is")
        return None

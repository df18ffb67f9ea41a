"""One loaded extension, from its manifest to its shutdown.

    load ──► attach ──► initialize ──► live ──► detach ──► retire
             the handlers of the       │                   its handlers end, shutdown, its tasks end,
             manifest                  └ subscribe_event    its modules are forgotten

When a running one is replaced, the new one is initialized before it is attached, and what it subscribes to meanwhile
is kept until then: the step from the old handlers to the new ones is a single one, between two events.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

from broker.agents.cause import handling
from broker.bus import Event, Handler, Subscription
from broker.errors import CourierError
from broker.extensions.catalogue import Fingerprint
from broker.extensions.code import Code
from broker.extensions.context import ExtensionContext
from broker.extensions.handlers import invoke_agent, notify_user
from broker.extensions.manifest import Manifest, Subscribes
from broker.extensions.parts import Surroundings, agent_for, channel_for
from broker.extensions.problems import LoadFailed, raised, waiting
from broker.extensions.reading import FILE, entrypoint_of, read_manifest
from broker.limits import (
    BUS_CANCEL_SECONDS_MAX,
    EXTENSION_FINISH_SECONDS_MAX,
    EXTENSION_INITIALIZE_SECONDS_MAX,
    EXTENSION_SHUTDOWN_SECONDS_MAX,
)

log = logging.getLogger(__name__)


class Wanted(NamedTuple):
    """A subscription that is to be made."""

    topic: str
    handler: Handler
    options: dict[str, Any]
    place: str
    """What asks for it: a key of the manifest, or a call."""


class Extension:
    """A version of an extension. Make one with `Extension.load`."""

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        code: Code | None,
        thing: Any,
        print_: Fingerprint,
        around: Surroundings,
    ) -> None:
        assert manifest.id is not None
        self.id = manifest.id
        self.directory = directory
        self.manifest = manifest
        self.fingerprint = print_
        self.thing = thing
        """The module, or the object of the class, that the entrypoint names."""
        self._code = code
        self._around = around
        self._file = str(directory / FILE)
        self._channel = channel_for(manifest, self._file, thing, around)
        self._agent = agent_for(manifest, self._file, thing, around)
        given = (self._from_manifest(*each) for each in enumerate(manifest.events.subscribes))
        self._wanted = [wanted for wanted in given if wanted is not None]
        self._subscriptions: list[Subscription] = []
        self._former: list[Subscription] = []
        """Those that get nothing new, and may still have to finish what has begun."""
        self._is_attached = False
        self._is_initialized = False
        self.context = ExtensionContext(self.id, manifest.config, around.bus, around.channels, self._subscribe)

    @classmethod
    def load(cls, directory: Path, print_: Fingerprint, around: Surroundings) -> "Extension | None":
        """Read the manifest and import the code; None if it is not enabled. Raise LoadFailed with every problem."""
        manifest = read_manifest(directory, around.environ)
        if not manifest.enabled:
            return None
        entrypoint = entrypoint_of(manifest, directory)
        code = None if entrypoint is None else Code(directory)
        try:
            thing = None if entrypoint is None or code is None else code.load(*entrypoint)
            return cls(directory, manifest, code, thing, print_, around)
        except LoadFailed:
            if code is not None:
                code.unload()
            raise

    # Subscriptions.

    def _from_manifest(self, index: int, each: Subscribes) -> Wanted | None:
        if each.handler == "custom":
            return None
        if each.handler == "notify_user":
            handler = notify_user(self.id, self._around.channels)
        else:
            assert self._agent is not None, "the manifest was checked"
            handler = invoke_agent(self._agent, self._around.channels)
        options = {"subscriber_id": f"{self.id}.{each.handler}", **_options(each)}
        return Wanted(each.topic, self._guarded(handler), options, f"events.subscribes[{index}]")

    def _subscribe(self, topic: str, handler: Handler) -> None:
        if not callable(handler):
            raise TypeError(f"subscribe_event({topic!r}, …) needs a handler, not {type(handler).__name__}")
        entries = (each for each in self.manifest.events.subscribes if (each.topic, each.handler) == (topic, "custom"))
        entry = next(entries, None)
        options = {} if entry is None else _options(entry)
        options = {"subscriber_id": self.id, **options}
        wanted = Wanted(topic, self._guarded(handler), options, f"subscribe_event({topic!r}, …)")
        Subscription(topic, wanted.handler, **wanted.options)  # refused here, at the line that asks for it
        if self._is_attached:
            self._subscriptions.append(self._around.bus.subscribe(topic, wanted.handler, **wanted.options))
        self._wanted.append(wanted)

    def _guarded(self, handler: Handler) -> Handler:
        """The handler, with what it works for known to all that it calls."""

        async def handle(event: Event) -> None:
            try:
                with handling(event) as seen:
                    result = handler(seen)
                    if inspect.isawaitable(result):
                        await result
            except SystemExit as error:
                raise RuntimeError(f"the handler called sys.exit({error.code!r}); raise an exception instead") from None

        return handle

    def attach(self) -> None:
        """Let its handlers have events, and messages its channel. Raise LoadFailed, with nothing attached."""
        for wanted in self._wanted:
            try:
                self._subscriptions.append(self._around.bus.subscribe(wanted.topic, wanted.handler, **wanted.options))
            except CourierError as error:
                self.detach()
                raise LoadFailed([f"{self._file}: {wanted.place}: {error.message}"]) from error
        if self._channel is not None and self.manifest.channel is not None:
            self._around.channels.add(self.id, self._channel, default=self.manifest.channel.default)
        self._is_attached = True

    def detach(self) -> None:
        """Give its handlers nothing new; those that run go on."""
        self._is_attached = False
        for subscription in self._subscriptions:
            self._around.bus.unsubscribe(subscription)
        self._former, self._subscriptions = self._former + self._subscriptions, []
        if self._channel is not None:
            self._around.channels.remove(self.id, self._channel)

    # Life.

    async def initialize(self) -> None:
        """Call `initialize(context)`; raise LoadFailed with the place where it failed, or where it waits too long."""
        initialize = getattr(self.thing, "initialize", None)
        if initialize is not None:
            await self._within(EXTENSION_INITIALIZE_SECONDS_MAX, "initialize", initialize, self.context)
        subscribed = {wanted.topic for wanted in self._wanted}
        for index, each in enumerate(self.manifest.events.subscribes):
            if each.handler == "custom" and each.topic not in subscribed:
                place = f"{self._file}: events.subscribes[{index}].handler"
                text = f"custom, but initialize did not call subscribe_event({each.topic!r}, …)"
                raise LoadFailed([f"{place}: {text}"])
        self._is_initialized = True

    async def retire(self) -> list[str]:
        """Let its handlers end, call `shutdown()`, end its tasks and forget its modules; what went wrong meanwhile."""
        problems: list[str] = []
        try:
            async with asyncio.timeout(EXTENSION_FINISH_SECONDS_MAX):
                for each in self._former:
                    await each.unclaimed()
        except TimeoutError:
            claims = sum(each.claims for each in self._former)
            text = f"{claims} handlers were not done after {EXTENSION_FINISH_SECONDS_MAX:g} s; they go on"
            problems.append(f"{self.directory}: {text}")
        shutdown = getattr(self.thing, "shutdown", None)
        if shutdown is not None and self._is_initialized:
            try:
                await self._within(EXTENSION_SHUTDOWN_SECONDS_MAX, "shutdown", shutdown)
            except LoadFailed as error:
                problems += error.problems
        self.context.leave_bus()
        return problems + await self._end_tasks()

    async def _end_tasks(self) -> list[str]:
        code = self._code
        if code is None:
            return []
        tasks = [task for task in asyncio.all_tasks() if code.owns(task.get_coro())]
        for task in tasks:
            task.cancel()
        code.unload()
        if not tasks:
            return []
        _, stubborn = await asyncio.wait(tasks, timeout=BUS_CANCEL_SECONDS_MAX)
        return [f"{self.directory}: {task.get_name()} does not end, although it was cancelled" for task in stubborn]

    async def _within(self, seconds: float, doing: str, function: Any, *arguments: Any) -> None:
        """Call a function of the extension, or run its coroutine for so many seconds at most."""
        try:
            result = function(*arguments)
            if not inspect.isawaitable(result):
                return
            task = asyncio.ensure_future(_contained(result))
            task.set_name(f"{self.id}.{doing}")
            done, _ = await asyncio.wait([task], timeout=seconds)
            if done:
                task.result()
                return
        except asyncio.CancelledError as error:
            if (current := asyncio.current_task()) is None or current.cancelling():
                raise
            raise raised(error, self.directory, doing) from error  # it cancelled itself, or was left by what it awaits
        except (Exception, SystemExit) as error:
            raise raised(error, self.directory, doing) from error
        failure = waiting(result, self.directory, f"{doing}: not done after {seconds:g} s; it waits here")
        task.cancel()
        await asyncio.wait([task], timeout=BUS_CANCEL_SECONDS_MAX)
        raise failure


async def _contained(result: Awaitable[Any]) -> None:
    """A task that ends with SystemExit would end the loop."""
    try:
        await result
    except SystemExit as error:
        raise RuntimeError(f"it called sys.exit({error.code!r}); raise an exception instead") from error


def _options(each: Subscribes) -> dict[str, Any]:
    return {
        "retries": each.retries,
        "backoff": each.backoff,
        "timeout": each.timeout,
        "concurrency": each.concurrency,
    }

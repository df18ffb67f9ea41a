"""Host: the extensions of a directory, on one event bus.

The bus begins only when every extension is initialized. Else an event of the last process could be done before all that
are to handle it have subscribed.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp

from broker.agents import AgentFailed, AgentProvider
from broker.bus import EventBus
from broker.channels import Channels
from broker.clock import Clock, SystemClock
from broker.extensions.catalogue import Fingerprint, directories, fingerprint
from broker.extensions.extension import Extension
from broker.extensions.parts import Surroundings
from broker.extensions.problems import LoadFailed
from broker.extensions.reading import FILE
from broker.outgoing.calls import open_session

log = logging.getLogger(__name__)


class Host:
    """Loads extensions, and replaces those that change."""

    def __init__(
        self,
        root: Path,
        bus: EventBus,
        *,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        channels: Channels | None = None,
        report: Callable[[str], None] = log.error,
    ) -> None:
        self._root = root
        self._bus = bus
        self._report = report
        self._extensions: dict[Path, Extension] = {}
        self._seen: dict[Path, Fingerprint] = {}
        """What each directory was like when it was last loaded, whatever came of it."""
        self._session: aiohttp.ClientSession | None = None
        self._changing = asyncio.Lock()
        self.channels = channels or Channels()
        """The ways to the user."""
        self._around = Surroundings(
            bus,
            self.channels,
            clock or SystemClock(),
            os.environ if environ is None else environ,
            self._open_session,
            self._provider_of,
        )

    @property
    def extensions(self) -> list[Extension]:
        """Those that run."""
        return list(self._extensions.values())

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session()
        return self._session

    def _provider_of(self, extension_id: str) -> AgentProvider:
        thing = next((each.thing for each in self._extensions.values() if each.id == extension_id), None)
        if isinstance(thing, AgentProvider):
            return thing
        reason = "which is not running" if thing is None else "whose object has no invoke(request)"
        raise AgentFailed(f"agent.provider names the extension {extension_id}, {reason}")

    # From start to stop.

    async def start(self) -> None:
        """Load every extension, wire what the manifests say, initialize them in the order of their names; begin.

        What keeps one of them from running is reported, and does not stop the others. Raise LoadFailed for a directory
        without any.
        """
        async with self._changing:
            await self._bus.stop()
            for directory in await asyncio.to_thread(directories, self._root):
                extension = await self._load(directory)
                if extension is None:
                    continue
                if self._attach(extension):
                    self._extensions[directory] = extension
                else:
                    await self._retire(extension)
            for directory, extension in list(self._extensions.items()):
                if not await self._initialize(extension):
                    del self._extensions[directory]
                    extension.detach()
                    await self._retire(extension)
            await self._bus.start()

    async def reload(self, *, again: bool = True) -> None:
        """Load what is new, replace what has changed, let go of what is gone.

        A new version that cannot run leaves the old one running. `again`: try what failed before, even if it is what
        it was.
        """
        async with self._changing:
            try:
                found = await asyncio.to_thread(directories, self._root)
            except LoadFailed as failure:
                self._tell(failure)
                return
            retiring = [self._take_away(each) for each in list(self._extensions) if each not in found]
            self._seen = {each: print_ for each, print_ in self._seen.items() if each in found}
            for directory in found:
                if await self._has_changed(directory, again=again):
                    retiring += await self._replace(directory)
            await self._retire(*retiring)

    def seen(self) -> dict[Path, Fingerprint]:
        """What the directories were like when they were last loaded."""
        return dict(self._seen)

    async def look(self) -> dict[Path, Fingerprint]:
        """What the directories are like now."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> dict[Path, Fingerprint]:
        try:
            return {each: fingerprint(each) for each in directories(self._root)}
        except LoadFailed:
            return {}

    async def stop(self) -> None:
        """Begin nothing new, let the handlers end, shut the extensions down in the opposite order."""
        async with self._changing:
            await self._bus.stop()
            retiring = list(reversed(self._extensions.values()))
            self._extensions.clear()
            for extension in retiring:
                extension.detach()
                await self._retire(extension)
            if self._session is not None:
                await self._session.close()
                self._session = None

    # One extension.

    async def _load(self, directory: Path) -> Extension | None:
        """The extension of a directory, if it is enabled, and can be loaded."""
        try:
            self._seen[directory] = print_ = await asyncio.to_thread(fingerprint, directory)
            extension = Extension.load(directory, print_, self._around)
            if extension is None:
                log.info("the extension in %s is not enabled", directory)
                if directory in self._extensions:
                    await self._retire(self._take_away(directory))
                return None
            for other in self.extensions:
                if other.id == extension.id and other.directory != directory:
                    await self._retire(extension)
                    reason = f"expected an id of its own, found {extension.id}, that of {other.directory}"
                    raise LoadFailed([f"{directory / FILE}: id: {reason}"])
        except LoadFailed as failure:
            self._tell(failure)
            return None
        return extension

    def _attach(self, extension: Extension) -> bool:
        try:
            extension.attach()
        except LoadFailed as failure:
            self._tell(failure)
            return False
        return True

    async def _initialize(self, extension: Extension) -> bool:
        try:
            await extension.initialize()
        except LoadFailed as failure:
            self._tell(failure)
            return False
        log.info("extension %s runs", extension.id)
        return True

    async def _has_changed(self, directory: Path, *, again: bool) -> bool:
        try:
            now = await asyncio.to_thread(fingerprint, directory)
        except LoadFailed:
            return again  # loading it says why
        running = self._extensions.get(directory)
        if running is not None and running.fingerprint == now:
            return False
        return again or self._seen.get(directory) != now

    async def _replace(self, directory: Path) -> list[Extension]:
        """Let the extension in a directory be what it is there now; those that are to be retired after that."""
        new = await self._load(directory)
        if new is None:
            return []
        if not await self._initialize(new) or not self._attach(new):
            return [new]
        old = self._extensions.get(directory)
        self._extensions[directory] = new
        if old is None:
            return []
        old.detach()  # nothing can have come between: there was no await since the new one was attached
        log.info("extension %s was replaced", new.id)
        return [old]

    def _take_away(self, directory: Path) -> Extension:
        extension = self._extensions.pop(directory)
        extension.detach()
        log.info("extension %s was taken away", extension.id)
        return extension

    async def _retire(self, *extensions: Extension) -> None:
        for problems in await asyncio.gather(*(each.retire() for each in extensions)):
            for problem in problems:
                self._report(problem)

    def _tell(self, failure: LoadFailed) -> None:
        for problem in failure.problems:
            self._report(problem)

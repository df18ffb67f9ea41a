"""Every configured source in a task of its own, begun again after each failure, later and later.

Whatever a round raises is that source's failure alone: it is said once, counted, and tried again.
"""

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping
from typing import Protocol

import aiohttp

from broker.admission.gate import Gate
from broker.clock import Clock
from broker.config import RestSource, Sources, WebSocketSource
from broker.config.keys import path_text
from broker.config.references import Unresolved, resolve
from broker.contracts import pulled
from broker.contracts.json_pointer import Pointer, parse_pointer
from broker.errors import ConfigError, CourierError
from broker.journal.rejections import Rejections
from broker.limits import SOURCE_REDIRECTS_MAX
from broker.sources.backoff import delay_seconds
from broker.sources.deposit import Store, Way
from broker.sources.problem import SourceProblem
from broker.sources.requests import open_session
from broker.sources.rest_poller import RestPoller
from broker.sources.state import Kind, Phase, SourceState
from broker.sources.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

_EXPECTED = (SourceProblem, CourierError, aiohttp.ClientError, TimeoutError, OSError)
"""What a round may raise without anybody having made a mistake here."""


class Journal(Store, Protocol):
    """What is needed of the journal."""

    checkpoints: dict[str, str]


class Supervisor:
    """All sources. `start` them on a running loop, `close` them before the gate closes."""

    def __init__(
        self,
        config: Sources,
        journal: Journal,
        gate: Gate,
        rejections: Rejections,
        clock: Clock,
        environ: Mapping[str, str] = os.environ,
        rng: random.Random | None = None,
    ) -> None:
        """Raise ConfigError for secrets that are not there, and streams that are in memory only."""
        self._headers = _resolved(config, environ)
        _check_streams(config, gate.is_in_memory)
        self._settings = list(config.named.values())
        self._way = Way(gate, journal, rejections, clock, rng or random.Random())  # noqa: S311 - jitter, not a secret
        self._tasks: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession | None = None
        self.states = [
            SourceState(each.name, _kind(each), each.stream, journal.checkpoints.get(_mapping(each).source_system))
            for each in self._settings
        ]
        """How each of them is doing, in the order of the configuration."""

    def start(self) -> None:
        """Begin. Without sources there is no session either."""
        if not self._settings:
            return
        self._session = session = open_session()
        for settings, headers, state in zip(self._settings, self._headers, self.states, strict=True):
            source: RestPoller | WebSocketClient
            if isinstance(settings, RestSource):
                source = RestPoller(settings, _mapping(settings), headers, state, self._way, session)
            else:
                source = WebSocketClient(settings, _mapping(settings), headers, state, self._way, session)
            self._tasks.append(asyncio.create_task(self._supervise(source), name=f"source {settings.name}"))

    async def _supervise(self, source: RestPoller | WebSocketClient) -> None:
        """Round after round. What was said of a failure is not said again until it is another one, or over."""
        state, clock = source.state, self._way.clock
        said: str | None = None
        while True:
            asked_seconds: float | None = None
            try:
                seconds = await source.round()
            except _EXPECTED as error:
                asked_seconds = getattr(error, "retry_after_seconds", None)
                state.failed(_reason(error), clock.wall_us())
                if said != state.last_error:
                    log.warning("source %s: %s; it is tried again", state.name, state.last_error)
            except Exception as error:
                state.failed(f"{type(error).__name__}: {error}", clock.wall_us())
                log.exception("source %s met something that it does not know; it is tried again", state.name)
            else:
                if said is not None:
                    log.info("source %s is back", state.name)
                said = None
                await self._rest("waiting", state, seconds)
                continue
            said = state.last_error
            delay = delay_seconds(state.failures, source.settings.backoff_max_ms, self._way.rng)
            await self._rest("retrying", state, delay + (asked_seconds or 0.0))

    async def _rest(self, phase: Phase, state: SourceState, seconds: float) -> None:
        state.rests(phase, self._way.clock.wall_us() + int(seconds * 1_000_000))
        await self._way.pause(seconds)

    async def close(self) -> None:
        """Stop pulling. What is on its way to the journal is committed there; the rest is pulled again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for state in self.states:
            state.phase = "stopped"
            state.next_attempt_at = None
        if self._session is not None:
            await self._session.close()
            self._session = None


def _reason(error: Exception) -> str:
    if isinstance(error, CourierError):
        return error.message
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
        return "the server did not answer in time; timeoutMs says how long it may take"
    if isinstance(error, aiohttp.TooManyRedirects):
        return f"the server redirects more than {SOURCE_REDIRECTS_MAX} times"
    return str(error) or type(error).__name__


def _kind(settings: RestSource | WebSocketSource) -> Kind:
    return "rest" if isinstance(settings, RestSource) else "websocket"


def _mapping(settings: RestSource | WebSocketSource) -> pulled.Mapping:
    return pulled.Mapping(
        settings.name,
        settings.stream,
        settings.default_type,
        parse_pointer(settings.id),
        _pointer(settings.items),
        _pointer(settings.sequence),
        _pointer(settings.time),
        _pointer(settings.type),
        _pointer(settings.cursor),
        _pointer(settings.next_cursor),
    )


def _pointer(text: str | None) -> Pointer | None:
    return None if text is None else parse_pointer(text)


def _resolved(config: Sources, environ: Mapping[str, str]) -> list[dict[str, str]]:
    """The headers of each source with their secrets; raise ConfigError with every one that cannot be had."""
    problems: list[str] = []
    found: list[dict[str, str]] = []
    for path, settings in config.named.items():
        headers: dict[str, str] = {}
        for name, text in settings.headers.items():
            try:
                headers[name] = resolve(text, environ)
            except Unresolved as problem:
                problems.append(f"{path_text((*path, 'headers', name))}: {problem}")
        found.append(headers)
    if problems:
        raise ConfigError(problems)
    return found


def _check_streams(config: Sources, is_in_memory: Callable[[str], bool]) -> None:
    """A cursor on disk behind events in memory would lose them."""
    problems = [
        f"{path_text((*path, 'stream'))}: expected a stream of the journal, found {settings.stream}, which is in memory"
        for path, settings in config.named.items()
        if is_in_memory(settings.stream)
    ]
    if problems:
        raise ConfigError(problems)

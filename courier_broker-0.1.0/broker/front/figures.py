"""`GET /v1/stats`: many streams in figures at once, with the age of the oldest event of each."""

from bisect import bisect_right
from typing import Any, Protocol

from aiohttp import web

from broker.clock import Clock
from broker.contracts.names import pattern_matches, stream_pattern_problem
from broker.errors import InvalidRequest
from broker.front.guard import PRINCIPAL
from broker.front.replies import json_response
from broker.front.requests import Query
from broker.journal.oldest import oldest_pending
from broker.journal.reader import ReaderPool
from broker.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX
from broker.streams.oldest import oldest_waiting
from broker.streams.stream import Stream


class Streams(Protocol):
    """What the figures need of the streams."""

    def names(self) -> list[str]:
        """Every stream, sorted."""

    def find(self, name: str) -> Stream | None:
        """The stream of this name, if there is one."""

    def stats(self, name: str) -> dict[str, Any] | None:
        """A stream in figures, if there is one of this name."""


class Figures:
    """The endpoint. It shows only what the caller may subscribe to."""

    def __init__(self, streams: Streams, readers: ReaderPool, clock: Clock) -> None:
        self._streams = streams
        self._readers = readers
        self._clock = clock

    async def handle(self, request: web.Request) -> web.Response:
        """`GET /v1/stats`."""
        query = Query(request, "stream", "after", "limit")
        limit = query.integer("limit", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
        pattern = query.text("stream") or "**"
        if (problem := stream_pattern_problem(pattern)) is not None:
            raise InvalidRequest(f"stream: {problem}")
        names = self._streams.names()
        found: list[str] = []
        following = None
        for name in names[bisect_right(names, query.text("after") or "") :]:
            if not pattern_matches(pattern, name) or not request[PRINCIPAL].may("streams", name, "subscribe"):
                continue
            if len(found) == limit:
                following = found[-1]
                break
            found.append(name)
        return json_response({"streams": await self._figures(found), "next": following})

    async def _figures(self, names: list[str]) -> list[dict[str, Any]]:
        figures = {name: stats for name in names if (stats := self._streams.stats(name)) is not None}
        busy = [name for name, stats in figures.items() if stats["depth"] or stats["inflight"]]
        in_ledger = [name for name in busy if figures[name]["durability"] == "journal"]
        oldest: dict[str, int] = await self._readers.run(oldest_pending, in_ledger) if in_ledger else {}
        for name in busy:
            stream = self._streams.find(name)
            if stream is not None and stream.rules.in_memory and (at := oldest_waiting(stream)) is not None:
                oldest[name] = at
        now = self._clock.wall_us()
        ages = {name: max(0.0, (now - at) / 1000) for name, at in oldest.items()}
        return [{"stream": name, **stats, "oldestMs": ages.get(name)} for name, stats in figures.items()]

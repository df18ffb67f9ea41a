"""A server that is asked for what is new: one round is one GET, and what it brought on disk.

As long as a page brings items and moves the cursor, the next one follows at once; else the interval is waited. An
answer that was committed in full is asked for with its ETag from then on, so that a server without news says so.
"""

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp import hdrs

from broker.config import RestSource
from broker.contracts import pulled
from broker.errors import CourierError
from broker.limits import SOURCE_PAUSE_MS
from broker.sources.backoff import jittered_seconds
from broker.sources.deposit import Deposit, Way
from broker.sources.problem import SourceProblem
from broker.sources.requests import REDIRECTS_MAX, filled_url, retry_after_seconds
from broker.sources.state import SourceState

_NOT_MODIFIED = 304
_LATER = (429, 503)


class RestPoller:
    """One source."""

    def __init__(
        self,
        settings: RestSource,
        mapping: pulled.Mapping,
        headers: Mapping[str, str],
        state: SourceState,
        way: Way,
        session: aiohttp.ClientSession,
    ) -> None:
        self.settings = settings
        self.state = state
        self._mapping = mapping
        self._headers = headers
        self._deposit = Deposit(mapping, state, way)
        self._way = way
        self._session = session
        self._etag: str | None = None
        """Of the last answer, if the next question is the same."""

    async def round(self) -> float:
        """Ask once; after how many seconds to ask again. Raise SourceProblem when it came to nothing."""
        self.state.began("polling")
        cursor = self.state.cursor
        body = await self._ask(self.settings.first_cursor if cursor is None else cursor)
        if body is None:
            self.state.succeeded()
            return jittered_seconds(self.settings.interval_ms, self._way.rng)
        try:
            page = pulled.read_page(body[0], self._mapping)
            await self._deposit.put(page.items, page.cursor)
        except CourierError as error:
            raise SourceProblem(f"what the server answered cannot be taken: {error.message}") from None
        moved = self.state.cursor != cursor
        self._etag = None if moved else body[1]
        self.state.succeeded()
        if page.items and moved:
            return SOURCE_PAUSE_MS / 1000
        return jittered_seconds(self.settings.interval_ms, self._way.rng)

    async def _ask(self, cursor: str) -> tuple[bytes, str | None] | None:
        """The body of the answer, and its ETag; None if there is nothing new."""
        headers = self._headers if self._etag is None else {**self._headers, hdrs.IF_NONE_MATCH: self._etag}
        url = filled_url(self.settings.url, cursor)
        async with (
            asyncio.timeout(self.settings.timeout_ms / 1000),
            self._session.get(url, headers=headers, max_redirects=REDIRECTS_MAX) as answer,
        ):
            if answer.status == _NOT_MODIFIED and self._etag is not None:
                return None
            if answer.status // 100 != 2:
                raise self._refusal(answer)
            return await self._read(answer), _sendable(answer.headers.get(hdrs.ETAG))

    def _refusal(self, answer: aiohttp.ClientResponse) -> SourceProblem:
        says_when = answer.status in _LATER or hdrs.RETRY_AFTER in answer.headers
        text = answer.headers.get(hdrs.RETRY_AFTER) if says_when else None
        return SourceProblem(
            f"the server answers {answer.status} {answer.reason or ''}".rstrip(),
            retry_after_seconds(text, self._way.clock.wall_us()),
        )

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        """The body, unpacked, of which no more is read than may be kept."""
        bytes_max = self.settings.max_body_bytes
        parts: list[bytes] = []
        size = 0
        async for part in answer.content.iter_any():
            size += len(part)
            if size > bytes_max:
                answer.close()
                raise SourceProblem(
                    f"the answer has more than {bytes_max} bytes; ask for smaller pages, or raise maxBodyBytes"
                )
            parts.append(part)
        return b"".join(parts) or b"null"


def _sendable(etag: str | None) -> str | None:
    """An ETag that can be sent back. One that a request cannot hold would keep every later one from being made."""
    return etag if etag is not None and etag.isascii() and etag.isprintable() else None

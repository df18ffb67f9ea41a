"""`/v1/dead-letters`: what was given up, shown to those who may read it, brought back or let go by an operator."""

import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Raw

from broker.admission.auth import Principal
from broker.contracts.names import text_problem
from broker.errors import CourierError, InvalidRequest, NotFound
from broker.front.guard import PRINCIPAL
from broker.front.replies import error_frame
from broker.front.requests import NDJSON, Query, json_body, seq_in_path
from broker.front.shapes import (
    NOTHING,
    BulkDiscardRequest,
    BulkReplayRequest,
    DeadLetterFilter,
    DeadLetterPage,
    DeadLetterSummary,
    DeadLetterWhole,
    Discarded,
    DiscardRequest,
    Matching,
    ProgressLine,
    Replayed,
    shape_response,
    shown_time,
    shown_time_or_none,
)
from broker.journal.dead_letters import DeadLetter, DeadLetters, Filter, Progress
from broker.limits import (
    DISCARD_REASON_BYTES_MAX,
    FILTER_TEXT_BYTES_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    SEQ_MAX,
)
from broker.streams.groups import group_name_problem

_STREAM_FILTER = re.compile(r"[A-Za-z0-9._/*-]+")


class DeadLetterEndpoints:
    """The endpoints. Reading needs `subscribe` on the stream, acting needs `admin:*`."""

    def __init__(self, letters: DeadLetters) -> None:
        self._letters = letters

    async def list_letters(self, request: web.Request) -> web.Response:
        """`GET /v1/dead-letters`."""
        query = Query(request, "stream", "type", "reason", "group", "after", "limit")
        wanted = _filter(*map(query.text, ("stream", "type", "reason", "group")))
        after = query.integer("after", 0, 0, SEQ_MAX)
        limit = query.integer("limit", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
        found = await self._letters.page(wanted, after, limit)
        principal = request[PRINCIPAL]
        shown = [
            DeadLetterSummary(**_fields(letter))
            for letter in found
            if principal.may("streams", letter.stream, "subscribe")
        ]
        return shape_response(DeadLetterPage(dead_letters=shown, next=found[-1].seq if len(found) == limit else None))

    async def inspect(self, request: web.Request) -> web.Response:
        """`GET /v1/dead-letters/{seq}`."""
        group = _group(Query(request, "group"))
        seq = seq_in_path(request)
        letter, envelope, is_whole = await self._letters.inspect(seq, group)
        if not request[PRINCIPAL].may("streams", letter.stream, "subscribe"):
            raise NotFound(f"there is no dead letter with sequence {seq}")
        raw = Raw(envelope) if envelope is not None and is_whole else NOTHING
        return shape_response(DeadLetterWhole(**_fields(letter), corrupt=not is_whole, envelope=raw))

    async def replay(self, request: web.Request) -> web.Response:
        """`POST /v1/dead-letters/{seq}/replay`."""
        group = _group(_admin_query(request, "group"))
        seq = seq_in_path(request)
        return shape_response(Replayed(seq=seq, redriven_as=await self._letters.replay_one(seq, group)))

    async def discard(self, request: web.Request) -> web.Response:
        """`POST /v1/dead-letters/{seq}/discard`."""
        group = _group(_admin_query(request, "group"))
        seq = seq_in_path(request)
        asked = await json_body(request, DiscardRequest)
        await self._letters.discard_one(seq, _reason(asked), group)
        return shape_response(Discarded(seq=seq, discarded=True))

    async def replay_many(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/dead-letters/replay`."""
        _admin_query(request)
        asked = await json_body(request, BulkReplayRequest)
        wanted = _filter_of(asked.filter)
        if asked.dry_run:
            return shape_response(Matching(matching=await self._letters.count(wanted)))
        return await _report(request, self._letters.replay(wanted, per_second=asked.per_second))

    async def discard_many(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/dead-letters/discard`."""
        _admin_query(request)
        asked = await json_body(request, BulkDiscardRequest)
        wanted, reason = _filter_of(asked.filter), _reason(asked)
        if asked.dry_run:
            return shape_response(Matching(matching=await self._letters.count(wanted)))
        return await _report(request, self._letters.discard(wanted, reason))


async def _report(request: web.Request, progress: AsyncIterator[Progress]) -> web.StreamResponse:
    """A line of JSON for each slice that is on disk, and a last one. Ends early when nobody reads any more.

    The first slice is waited for before the answer begins, so that a failure can still have its status.
    """
    latest = await anext(progress, None) or Progress(0, 0)
    response = web.StreamResponse(headers={"Content-Type": NDJSON})
    await response.prepare(request)
    try:
        await response.write(_line(latest, finished=False))
        async for latest in progress:
            await response.write(_line(latest, finished=False))
        await response.write(_line(latest, finished=True))
    except CourierError as error:
        await response.write(error_frame(error) + b"\n")
    await response.write_eof()
    return response


def _line(progress: Progress, *, finished: bool) -> bytes:
    return msgspec.json.encode(ProgressLine(done=progress.done, total=progress.total, finished=finished)) + b"\n"


def _admin_query(request: web.Request, *known: str) -> Query:
    """The query of an operator; raise Forbidden for anybody else's."""
    principal: Principal = request[PRINCIPAL]
    principal.check_admin()
    return Query(request, *known)


def _group(query: Query) -> str | None:
    """The consumer group that is meant; None for the streams themselves."""
    name = query.text("group")
    if name is not None and (problem := group_name_problem(name)) is not None:
        raise InvalidRequest(f"group: {problem}")
    return name


def _reason(asked: DiscardRequest) -> str:
    if (problem := text_problem(asked.reason, DISCARD_REASON_BYTES_MAX)) is not None:
        raise InvalidRequest(f"reason: {problem}")
    return asked.reason


def _filter_of(asked: DeadLetterFilter) -> Filter:
    return _filter(asked.stream, asked.type, asked.reason, asked.group)


def _filter(stream: str | None, kind: str | None, reason: str | None, group: str | None) -> Filter:
    for name, text in (("stream", stream), ("type", kind), ("reason", reason), ("group", group)):
        if text is not None and (problem := text_problem(text, FILTER_TEXT_BYTES_MAX)) is not None:
            raise InvalidRequest(f"{name}: {problem}")
    if stream is not None and _STREAM_FILTER.fullmatch(stream) is None:
        raise InvalidRequest("stream: it has a character outside A-Z a-z 0-9 . _ - / and *, which stands for anything")
    return Filter(stream, kind, reason, group=group)


def _fields(letter: DeadLetter) -> dict[str, Any]:
    return {
        "seq": letter.seq,
        "stream": letter.stream,
        "type": letter.type,
        "source": letter.source_system,
        "id": letter.source_event_id,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "received_at": shown_time(letter.received_at),
        "first_attempt_at": shown_time_or_none(letter.first_attempt_at),
        "dead_at": shown_time(letter.dead_at),
    }

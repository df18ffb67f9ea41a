"""`/v1/schedule`: events that are put off."""

import re
from datetime import datetime
from typing import Any

from aiohttp import web
from msgspec import UNSET, Raw

from broker.admission.auth import Principal
from broker.clock import Clock
from broker.contracts import courier
from broker.contracts.bus import bus_event
from broker.contracts.inbound import InboundEvent
from broker.contracts.names import stream_pattern_problem, text_problem
from broker.errors import InUse, InvalidRequest, NotFound
from broker.front.guard import PRINCIPAL
from broker.front.requests import Query, json_body, whole_number
from broker.front.schedule_shapes import Cancelled, Deferred, DeferredPage, DeferredWhole, DeferRequest, Scheduled
from broker.front.shapes import NOTHING, shape_response, shown_time, shown_time_or_none
from broker.journal import deferral_queries
from broker.journal.deferral_queries import Shown
from broker.journal.reader import ReaderPool
from broker.limits import (
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    SCHEDULE_KEY_BYTES_MAX,
    SEQ_MAX,
)
from broker.scheduler.scheduler import Scheduler
from broker.scheduler.times import moment_us

_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


class ScheduleEndpoints:
    """The endpoints. Who may enqueue to a stream may put events off for it, and cancel them."""

    def __init__(self, scheduler: Scheduler, readers: ReaderPool, clock: Clock) -> None:
        self._scheduler = scheduler
        self._readers = readers
        self._clock = clock

    async def put_off(self, request: web.Request) -> web.Response:
        """`POST /v1/schedule`."""
        principal: Principal = request[PRINCIPAL]
        asked = await json_body(request, DeferRequest)
        now_us = self._clock.wall_us()
        fire_at = _fire_at(asked, now_us)
        is_envelope = asked.to is not UNSET or asked.envelope is not UNSET
        event = _event(asked, now_us) if is_envelope else _bus_event(asked, principal.name, now_us)
        is_named = is_envelope or asked.key is not UNSET
        kept = await self._scheduler.put_off(principal, event, fire_at, is_named=is_named)
        return shape_response(
            Scheduled(
                id=kept.id,
                status=kept.status,
                fire_at=shown_time(kept.fire_at),
                duplicate=kept.duplicate,
                payload_conflict=kept.conflict,
            )
        )

    async def list_waiting(self, request: web.Request) -> web.Response:
        """`GET /v1/schedule`."""
        query = Query(request, "stream", "after", "limit")
        principal: Principal = request[PRINCIPAL]
        pattern = query.text("stream")
        if pattern is not None and (problem := stream_pattern_problem(pattern)) is not None:
            raise InvalidRequest(f"stream: {problem}")
        limit = query.integer("limit", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
        page = await self._readers.run(
            deferral_queries.waiting,
            _cursor(query.text("after")),
            limit,
            pattern,
            lambda stream: _may_see(principal, stream),
        )
        following = None if page.following is None else "{}.{}".format(*page.following)
        return shape_response(DeferredPage(deferred=[Deferred(**_fields(each)) for each in page.shown], next=following))

    async def show(self, request: web.Request) -> web.Response:
        """`GET /v1/schedule/{id}`."""
        Query(request)
        found, envelope = await self._found(request)
        may_read = request[PRINCIPAL].may("streams", found.stream, "subscribe")
        return shape_response(
            DeferredWhole(**_fields(found), envelope=Raw(envelope) if may_read and envelope else NOTHING)
        )

    async def cancel(self, request: web.Request) -> web.Response:
        """`DELETE /v1/schedule/{id}`."""
        Query(request)
        found, _envelope = await self._found(request)
        request[PRINCIPAL].check_stream(found.stream, "enqueue")
        if found.recurrence is not None and found.status == "scheduled":
            raise InUse(
                f"deferred event {found.id} is the next run of {found.recurrence!r}; "
                f"to end that, DELETE /v1/recurring/{found.recurrence}"
            )
        cancelled = await self._scheduler.cancel(found.id)
        found, _envelope = await self._found(request)
        return shape_response(Cancelled(id=found.id, cancelled=cancelled, status=found.status))

    async def _found(self, request: web.Request) -> tuple[Shown, bytes | None]:
        text = request.match_info["id"]
        number = whole_number(text)
        found = None
        if number is not None and number <= SEQ_MAX:
            found = await self._readers.run(deferral_queries.find, number)
        if found is None or not _may_see(request[PRINCIPAL], found[0].stream):
            raise NotFound(f"there is no deferred event {text[:40]!r}")
        return found


def _may_see(principal: Principal, stream: str) -> bool:
    return principal.may("streams", stream, "enqueue") or principal.may("streams", stream, "subscribe")


def _fire_at(asked: DeferRequest, now_us: int) -> int:
    if (asked.at is UNSET) == (asked.delay_ms is UNSET):
        raise InvalidRequest('say when: either "at", a time like 2026-02-19T18:30:00Z, or "delayMs"')
    if isinstance(asked.at, datetime):
        return moment_us(asked.at, now_us, "at")
    assert isinstance(asked.delay_ms, int)
    return moment_us(asked.delay_ms / 1000, now_us, "delayMs")


def _event(asked: DeferRequest, now_us: int) -> InboundEvent:
    """The event of a stream and an envelope."""
    for name, value in (("topic", asked.topic), ("payload", asked.payload), ("correlationId", asked.correlation_id)):
        if value is not UNSET:
            raise InvalidRequest(f'"{name}" goes with "topic" and "payload", not with "to" and "envelope"')
    if asked.key is not UNSET:
        raise InvalidRequest('"key" is for topics; an envelope has its "id", with which it is put off once')
    if asked.to is UNSET or asked.envelope is UNSET:
        raise InvalidRequest('"to" and "envelope" go together: {"to": stream, "envelope": {…}, "delayMs": 5000}')
    assert isinstance(asked.to, str)
    assert isinstance(asked.envelope, Raw)
    return courier.parse_envelope(asked.to, bytes(asked.envelope), now_us)


def _bus_event(asked: DeferRequest, source: str, now_us: int) -> InboundEvent:
    """The event of a topic and a payload."""
    if not isinstance(asked.topic, str) or not isinstance(asked.payload, Raw):
        raise InvalidRequest(
            'say what: {"to": stream, "envelope": {…}, "delayMs": 5000} or '
            '{"topic": topic, "payload": {…}, "delayMs": 5000}'
        )
    payload = bytes(asked.payload)
    if not payload.startswith(b"{"):
        raise InvalidRequest("payload: it must be an object")
    key = "" if asked.key is UNSET else asked.key
    if asked.key is not UNSET and (problem := text_problem(str(key), SCHEDULE_KEY_BYTES_MAX)) is not None:
        raise InvalidRequest(f"key: {problem}")
    correlation_id = None if asked.correlation_id is UNSET else str(asked.correlation_id)
    return bus_event(asked.topic, source, payload, correlation_id, f"key:{key}", now_us)


def _cursor(text: str | None) -> tuple[int, int]:
    if text is None:
        return -1, 0
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"after: {text[:40]!r} is not what an answer had as its next")
    return int(match[1]), int(match[2])


def _fields(found: Shown) -> dict[str, Any]:
    return {
        "id": found.id,
        "stream": found.stream,
        "source": found.source,
        "event_id": found.event_id,
        "status": found.status,
        "created_at": shown_time(found.created_at),
        "fire_at": shown_time(found.fire_at),
        "fired_at": shown_time_or_none(found.fired_at),
        "seq": found.seq,
        "attempts": found.attempts,
        "retry_at": shown_time_or_none(found.retry_at),
        "error": found.error,
    }

"""`/v1/recurring`: events that are published again and again."""

from typing import Any

import orjson
from aiohttp import web
from msgspec import UNSET

from broker.admission.auth import Principal
from broker.clock import Clock
from broker.contracts import bus, courier
from broker.contracts.names import stream_name_problem
from broker.errors import InvalidRequest, NotFound
from broker.front.guard import PRINCIPAL
from broker.front.requests import Query, json_body
from broker.front.schedule_shapes import RecurRequest, RecurringList, Recurs, RecursNoMore
from broker.front.shapes import shape_response, shown_time_or_none
from broker.scheduler.recurrence import Recurrence
from broker.scheduler.recurring import Entry, Recurring


class RecurringEndpoints:
    """The endpoints. Who may enqueue to a stream may let events recur on it."""

    def __init__(self, recurring: Recurring, clock: Clock) -> None:
        self._recurring = recurring
        self._clock = clock

    async def list_all(self, request: web.Request) -> web.Response:
        """`GET /v1/recurring`."""
        Query(request)
        principal: Principal = request[PRINCIPAL]
        entries = [each for each in await self._recurring.all() if _may_see(principal, each)]
        return shape_response(RecurringList(recurring=[_shown(each) for each in entries]))

    async def show(self, request: web.Request) -> web.Response:
        """`GET /v1/recurring/{name}`."""
        Query(request)
        return shape_response(_shown(await self._found(request)))

    async def put(self, request: web.Request) -> web.Response:
        """`PUT /v1/recurring/{name}`."""
        Query(request)
        principal: Principal = request[PRINCIPAL]
        asked = await json_body(request, RecurRequest)
        recurrence = _recurrence(asked, principal.name, self._clock.wall_us())
        return shape_response(_shown(await self._recurring.put(principal, request.match_info["name"], recurrence)))

    async def delete(self, request: web.Request) -> web.Response:
        """`DELETE /v1/recurring/{name}`."""
        Query(request)
        found = await self._found(request)
        await self._recurring.delete(request[PRINCIPAL], found.name)
        return shape_response(RecursNoMore(name=found.name, deleted=True))

    async def _found(self, request: web.Request) -> Entry:
        name = request.match_info["name"]
        found = await self._recurring.find(name)
        if not _may_see(request[PRINCIPAL], found):
            raise NotFound(f"nothing recurs under the name {name[:200]!r}")
        return found


def _may_see(principal: Principal, entry: Entry) -> bool:
    stream = entry.recurrence.stream
    return principal.may("streams", stream, "enqueue") or principal.may("streams", stream, "subscribe")


def _recurrence(asked: RecurRequest, source: str, now_us: int) -> Recurrence:
    """What is asked for; raise InvalidRequest for what is neither for a stream nor for a topic."""
    contract, stream, content = _on_stream(asked) if asked.topic is UNSET else _on_topic(asked)
    return Recurrence(
        contract=contract,
        stream=stream,
        source=source,
        correlation_id=asked.correlation_id if isinstance(asked.correlation_id, str) else None,
        content=content.decode(),
        cron=asked.cron,
        tz=asked.tz,
        every_ms=asked.every_ms,
        start=now_us,
        missed=asked.missed,
    )


def _on_stream(asked: RecurRequest) -> tuple[str, str, bytes]:
    if not isinstance(asked.to, str):
        raise InvalidRequest('say where to: "to", a stream, or "topic", a topic of the event bus')
    if (problem := stream_name_problem(asked.to)) is not None:
        raise InvalidRequest(f"to: {problem}")
    if asked.correlation_id is not UNSET:
        raise InvalidRequest('"correlationId" goes with "topic", not with "to"')
    envelope: dict[str, Any] = {"to": asked.to, "type": "message" if asked.type is UNSET else asked.type}
    if asked.from_ is not UNSET:
        envelope["from"] = asked.from_
    envelope["payload"] = orjson.Fragment(bytes(asked.payload))
    return courier.CONTRACT, asked.to, orjson.dumps(envelope)


def _on_topic(asked: RecurRequest) -> tuple[str, str, bytes]:
    for name, value in (("to", asked.to), ("type", asked.type), ("from", asked.from_)):
        if value is not UNSET:
            raise InvalidRequest(f'"{name}" goes with a stream, not with "topic"')
    payload = bytes(asked.payload)
    if not payload.startswith(b"{"):
        raise InvalidRequest("payload: it must be an object")
    return bus.CONTRACT, bus.stream_of(str(asked.topic)), payload


def _shown(entry: Entry) -> Recurs:
    recurrence = entry.recurrence
    return Recurs(
        name=entry.name,
        stream=recurrence.stream,
        cron=recurrence.cron,
        tz=None if recurrence.cron is None else recurrence.tz,
        every_ms=recurrence.every_ms,
        missed=recurrence.missed,
        next_at=shown_time_or_none(entry.next_at),
        last_at=shown_time_or_none(entry.last_at),
        error=entry.error,
    )

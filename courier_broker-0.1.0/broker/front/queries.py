"""`GET` of streams, their figures, their events and receipts: looking without consuming."""

from bisect import bisect_right
from typing import Any, Protocol

import orjson
from aiohttp import web
from msgspec import Raw

from broker.admission.auth import Principal
from broker.errors import Forbidden, NotFound, UnknownStream
from broker.front.guard import PRINCIPAL
from broker.front.rejections import rejected_receipt
from broker.front.replies import json_response
from broker.front.requests import Query, stream_in_path
from broker.front.shapes import (
    NOTHING,
    EventPage,
    Receipt,
    StreamEvent,
    StreamList,
    shape_response,
    shown_time,
    shown_time_or_none,
)
from broker.journal import reader
from broker.journal.browse import BrowsedEvent, browse
from broker.journal.reader import ReaderPool
from broker.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, SEQ_MAX

_SOURCE_OF_STREAMS = "stream:"


class Streams(Protocol):
    """What the queries need to know of the streams."""

    def names(self) -> list[str]:
        """Every stream, sorted."""

    def stats(self, name: str) -> dict[str, Any] | None:
        """A stream in figures, if there is one of this name."""

    def is_leased(self, stream: str, seq: int) -> bool:
        """Whether a consumer holds this event now."""


class Queries:
    """The endpoints. Each shows only what the caller may subscribe to."""

    def __init__(self, streams: Streams, readers: ReaderPool) -> None:
        self._streams = streams
        self._readers = readers

    async def list_streams(self, request: web.Request) -> web.Response:
        """`GET /v1/streams`."""
        query = Query(request, "after", "limit")
        limit = query.integer("limit", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
        principal = request[PRINCIPAL]
        names = self._streams.names()
        found: list[str] = []
        for name in names[bisect_right(names, query.text("after") or "") :]:
            if not principal.may("streams", name, "subscribe"):
                continue
            if len(found) == limit:
                return shape_response(StreamList(streams=found, next=found[-1]))
            found.append(name)
        return shape_response(StreamList(streams=found, next=None))

    async def stats(self, request: web.Request) -> web.Response:
        """`GET /v1/streams/{stream}/stats`."""
        Query(request)
        name = stream_in_path(request)
        request[PRINCIPAL].check_stream(name, "subscribe")
        figures = self._streams.stats(name)
        if figures is None:
            raise UnknownStream(f"there is no stream {name!r} now; it comes into being with its first event")
        return json_response(figures)

    async def events(self, request: web.Request) -> web.Response:
        """`GET /v1/streams/{stream}/events`."""
        query = Query(request, "from", "limit")
        name = stream_in_path(request)
        request[PRINCIPAL].check_stream(name, "subscribe")
        from_seq = query.integer("from", 1, 1, SEQ_MAX)
        limit = query.integer("limit", PAGE_LIMIT_DEFAULT, 1, PAGE_LIMIT_MAX)
        found, following = await self._readers.run(browse, name, from_seq, limit)
        return shape_response(EventPage(events=[self._shown(name, event) for event in found], next=following))

    def _shown(self, stream: str, event: BrowsedEvent) -> StreamEvent:
        return StreamEvent(
            seq=event.seq,
            source=event.source_system,
            id=event.source_event_id,
            type=event.type,
            state=event.process_state,  # type: ignore[arg-type]  # the column has these values only
            leased=event.process_state == "pending" and self._streams.is_leased(stream, event.seq),
            attempts=event.attempts,
            received_at=shown_time(event.received_at),
            reason=event.reason,
            redriven_as=event.redriven_as,
            emptied=event.envelope is None,
            corrupt=event.envelope is not None and not event.is_whole,
            envelope=Raw(event.envelope) if event.envelope is not None and event.is_whole else NOTHING,
        )

    async def receipt(self, request: web.Request) -> web.Response:
        """`GET /v1/receipts/{source}/{id}`."""
        Query(request)
        source, event_id = request.match_info["source"], request.match_info["id"]
        principal: Principal = request[PRINCIPAL]
        if source.startswith(_SOURCE_OF_STREAMS):
            principal.check_stream(source.removeprefix(_SOURCE_OF_STREAMS), "subscribe")
        found = await self._readers.run(reader.receipt, source, event_id)
        try:
            if found is not None and source != principal.name:  # a producer may see what became of its own events
                principal.check_stream(found["stream"], "subscribe")
        except Forbidden:
            found = None  # whoever may not see it does not learn that it is there
        if found is None:
            rejected = await rejected_receipt(self._readers, principal, source, event_id)
            if rejected is not None:
                return shape_response(rejected)
            raise NotFound(
                f"no event {event_id[:300]!r} was accepted from {source[:300]!r}; events of /v1/enqueue come from "
                "stream:NAME, with every / of it written as %2F; those of devices come from the name of their token"
            )
        return shape_response(self._receipt(source, event_id, found))

    def _receipt(self, source: str, event_id: str, found: dict[str, Any]) -> Receipt:
        return Receipt(
            source=source,
            id=event_id,
            seq=found["seq"],
            stream=found["stream"],
            type=found["type"],
            contract=found["contract"],
            state=found["process_state"],
            leased=found["process_state"] == "pending" and self._streams.is_leased(found["stream"], found["seq"]),
            attempts=found["process_attempts"],
            received_at=shown_time(found["received_at"]),
            last_seen_at=shown_time(found["ingest_last_seen_at"]),
            duplicates=found["duplicate_count"],
            payload_conflicts=found["payload_conflict_count"],
            processed_at=shown_time_or_none(found["processed_at"]),
            reason=found["process_error"],
            redriven_as=found["redriven_as"],
            payload_sha256=found["payload_sha256"],
            emptied=bool(found["emptied"]),
            notes=None if found["notes"] is None else orjson.loads(found["notes"]),
        )

"""`/v1/why`: the whole life of one event."""

from typing import Any, Protocol

import orjson
from aiohttp import web

from broker.admission.auth import Principal
from broker.errors import Forbidden, InvalidRequest, NotFound
from broker.front.guard import PRINCIPAL
from broker.front.requests import Query
from broker.front.shapes import shape_response, shown_time, shown_time_or_none
from broker.front.trigger_shapes import EventBrief, RulesConsidered, RuleVerdict, WhyFound
from broker.front.trigger_shapes import Why as WhyShape
from broker.journal import lives
from broker.journal.lives import Brief, Life
from broker.journal.reader import ReaderPool
from broker.limits import SEQ_MAX
from broker.triggers.actions import SOURCE_OF_TRIGGERS
from broker.triggers.fields import Fields
from broker.triggers.rule_set import RuleSet

_SOURCE_OF_STREAMS = "stream:"
_NOTE = "evaluated with the rules as they are now; what rules did when the event came is in caused"
_GONE = "not evaluated: the contents of the event are gone; what rules did when it came is in caused"


class Streams(Protocol):
    """What is needed of the streams."""

    def is_leased(self, stream: str, seq: int) -> bool:
        """Whether a consumer holds this event now."""


class Why:
    """The endpoints. They show what the caller may subscribe to, and the rules to operators."""

    def __init__(self, readers: ReaderPool, streams: Streams, rules: RuleSet) -> None:
        self._readers = readers
        self._streams = streams
        self._rules = rules

    async def find(self, request: web.Request) -> web.Response:
        """`GET /v1/why`: which event is meant, by its id alone, its stream or its sequence."""
        query = Query(request, "id", "stream", "source", "seq")
        event_id, stream, source = query.text("id"), query.text("stream"), query.text("source")
        if (event_id is None) == (query.text("seq") is None):
            raise InvalidRequest("give either id or seq")
        if event_id is None:
            found, complete = await self._readers.run(lives.by_seq, query.integer("seq", 1, 1, SEQ_MAX))
        elif source is not None:
            found, complete = await self._readers.run(lives.by_source, source, event_id)
        else:
            found, complete = await self._readers.run(lives.by_id, event_id, stream)
        if stream is not None:
            found = [event for event in found if event.stream == stream]
        principal: Principal = request[PRINCIPAL]
        events = [_brief(event) for event in found if principal.may("streams", event.stream, "subscribe")]
        return shape_response(WhyFound(events=events, complete=complete))

    async def identity(self, request: web.Request) -> web.Response:
        """`GET /v1/why/{source}/{id}`."""
        Query(request)
        source, event_id = request.match_info["source"], request.match_info["id"]
        principal: Principal = request[PRINCIPAL]
        if source.startswith(_SOURCE_OF_STREAMS):
            principal.check_stream(source.removeprefix(_SOURCE_OF_STREAMS), "subscribe")
        found = await self._readers.run(lives.life, source, event_id)
        try:
            if found is not None:
                principal.check_stream(found.facts["stream"], "subscribe")
        except Forbidden:
            found = None  # whoever may not see it does not learn that it is there
        if found is None:
            raise NotFound(
                f"no event {event_id[:300]!r} was stored from {source[:300]!r}; events of streams in memory leave no "
                "trace, and those of /v1/enqueue come from stream:NAME, with every / of it written as %2F"
            )
        return shape_response(self._shown(found, principal))

    def _shown(self, life: Life, principal: Principal) -> WhyShape:
        facts = life.facts
        around = [*life.causes, *life.effects]
        visible = {each.seq for each in around if principal.may("streams", each.stream, "subscribe")}
        return WhyShape(
            source=facts["source_system"],
            id=facts["source_event_id"],
            seq=facts["seq"],
            stream=facts["stream"],
            type=facts["type"],
            contract=facts["contract"],
            state=facts["process_state"],
            leased=facts["process_state"] == "pending" and self._streams.is_leased(facts["stream"], facts["seq"]),
            attempts=facts["process_attempts"],
            received_at=shown_time(facts["received_at"]),
            last_seen_at=shown_time(facts["ingest_last_seen_at"]),
            duplicates=facts["duplicate_count"],
            payload_conflicts=facts["payload_conflict_count"],
            first_attempt_at=shown_time_or_none(facts["process_first_attempt_at"]),
            processed_at=shown_time_or_none(facts["processed_at"]),
            reason=facts["process_error"],
            redriven_as=facts["redriven_as"],
            redriven_from=life.redriven_from,
            payload_sha256=facts["payload_sha256"],
            received_sha256=facts["received_sha256"],
            enriched=facts["enriched"],
            emptied=facts["emptied"],
            notes=None if facts["notes"] is None else orjson.loads(facts["notes"]),
            correlation_id=facts["correlation_id"],
            rule=_rule_of(facts["source_system"]),
            caused_by=[_brief(each) for each in life.causes if each.seq in visible],
            caused=[_brief(each) for each in life.effects if each.seq in visible],
            caused_complete=life.effects_complete,
            hidden=len(around) - len(visible),
            considered=self._considered(life) if principal.may_admin() else None,
        )

    def _considered(self, life: Life) -> RulesConsidered:
        if life.event is None:
            return RulesConsidered(evaluated="not", note=_GONE, rules=[])
        fields = Fields(life.event)
        verdicts = [(rule, rule.miss(fields)) for rule in self._rules.all()]
        rules = [
            RuleVerdict(id=rule.id, origin=rule.origin, matches=miss is None, miss=miss) for rule, miss in verdicts
        ]
        return RulesConsidered(evaluated="now", note=_NOTE, rules=rules)


def _rule_of(source: str) -> str | None:
    """The rule that emitted an event, if one did."""
    return source.removeprefix(SOURCE_OF_TRIGGERS) if source.startswith(SOURCE_OF_TRIGGERS) else None


def _brief(event: Brief) -> EventBrief:
    fields: dict[str, Any] = event._asdict()
    cause_seq = fields.pop("cause_seq")
    fields["received_at"] = shown_time(event.received_at)
    return EventBrief(**fields, rule=_rule_of(event.source), caused_by_seq=cause_seq)

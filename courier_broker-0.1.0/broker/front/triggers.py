"""`/v1/triggers`: the rules, for operators."""

from typing import Any

import msgspec
from aiohttp import web
from msgspec import Raw

from broker.admission.auth import Principal
from broker.clock import Clock
from broker.contracts import courier
from broker.contracts.json_bytes import check_depth, check_utf8
from broker.errors import InvalidRequest, NotFound
from broker.front.guard import PRINCIPAL
from broker.front.requests import JSON, Query, check_content_type
from broker.front.shapes import shape_response, shown_time_or_none
from broker.front.trigger_shapes import (
    Effect,
    RuleTried,
    TriggerCounts,
    TriggerDeleted,
    TriggerList,
    TriggerShown,
    TriggerTried,
)
from broker.triggers.engine import Engine
from broker.triggers.expansion import Expansion, Run
from broker.triggers.fields import Fields
from broker.triggers.rule import Rule
from broker.triggers.store import RuleStore


class _TestRequest(msgspec.Struct, forbid_unknown_fields=True):
    envelope: Raw


class _Target(msgspec.Struct):
    to: str


class TriggerEndpoints:
    """The endpoints; all need `admin:*`."""

    def __init__(self, engine: Engine, store: RuleStore, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock

    async def list_rules(self, request: web.Request) -> web.Response:
        """`GET /v1/triggers`."""
        _check_admin(request)
        rules = [_shown(rule) for rule in self._engine.rules.all()]
        return shape_response(TriggerList(triggers=rules, cooldowns_forgotten=self._engine.cooldowns.forgotten))

    async def show(self, request: web.Request) -> web.Response:
        """`GET /v1/triggers/{id}`."""
        _check_admin(request)
        rule_id = request.match_info["id"]
        rule = self._engine.rules.find(rule_id)
        if rule is None:
            raise NotFound(f"there is no trigger {rule_id[:300]!r}")
        return shape_response(_shown(rule))

    async def put(self, request: web.Request) -> web.Response:
        """`PUT /v1/triggers/{id}`."""
        _check_admin(request)
        values = _decoded(await _body(request), Any)
        return shape_response(_shown(await self._store.put(request.match_info["id"], values)))

    async def delete(self, request: web.Request) -> web.Response:
        """`DELETE /v1/triggers/{id}`."""
        _check_admin(request)
        rule_id = request.match_info["id"]
        await self._store.delete(rule_id)
        return shape_response(TriggerDeleted(id=rule_id, deleted=True))

    async def test(self, request: web.Request) -> web.Response:
        """`POST /v1/triggers/test`."""
        _check_admin(request)
        raw = bytes(_decoded(await _body(request), _TestRequest).envelope)
        target = _decoded(raw, _Target, "envelope").to
        event = courier.parse_envelope(target, raw, self._clock.wall_us())
        return shape_response(_tried(self._engine.dry_run(event), self._engine.rules.all()))


def _check_admin(request: web.Request) -> None:
    principal: Principal = request[PRINCIPAL]
    principal.check_admin()
    Query(request)


async def _body(request: web.Request) -> bytes:
    check_content_type(request, JSON)
    body = await request.read()
    check_utf8(body)
    check_depth(body)
    return body


def _decoded(data: bytes, kind: Any, name: str = "the body") -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"{name}: {error}") from None


def _shown(rule: Rule) -> TriggerShown:
    tally = rule.tally
    counts = TriggerCounts(
        matched=tally.matched,
        ran=tally.ran,
        held_back=tally.held_back,
        failed=tally.failed,
        missing_fields=tally.missing_fields,
        last_error=tally.last_error,
        last_error_at=shown_time_or_none(tally.last_error_at),
    )
    return TriggerShown(rule=rule.trigger, origin=rule.origin, counts=counts)


def _tried(expansion: Expansion, rules: list[Rule]) -> TriggerTried:
    stored = expansion.events[0]
    ran = {run.rule.id: run for run in expansion.runs if run.cause == 0}
    emitted = [
        Effect(
            rule=run.rule.id,
            action=action,
            to=expansion.events[position].stream,
            hops=expansion.hops(position),
            envelope=Raw(expansion.events[position].envelope),
        )
        for run in expansion.runs
        for position, action in run.rows
    ]
    return TriggerTried(
        rules=[_rule_tried(rule, ran.get(rule.id), Fields(stored)) for rule in rules],
        envelope=Raw(stored.envelope),
        emitted=emitted,
        further_errors=[f"{run.rule.id}: {error}" for run in expansion.runs if run.cause for error in run.errors],
    )


def _rule_tried(rule: Rule, run: Run | None, fields: Fields) -> RuleTried:
    return RuleTried(
        id=rule.id,
        origin=rule.origin,
        matches=run is not None,
        miss=None if run is not None else rule.miss(fields) or "what a later rule adds comes too late for it",
        held_back=run is not None and run.held_back,
        errors=[] if run is None else run.errors,
        missing_fields=0 if run is None else run.missing,
    )

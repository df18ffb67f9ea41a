"""What notify, route and enrich make of an event. Each raises a CourierError when it cannot be done.

The id of what is emitted follows from the rule, the position of the action and the identity of the cause, so
that the same cause can never have the same effect twice, however often it is asked for.
"""

import hashlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from broker.config import Action
from broker.config.relations import CAUSE_HEADER
from broker.contracts import courier
from broker.contracts.inbound import InboundEvent
from broker.contracts.json_bytes import check_depth
from broker.errors import InvalidEnvelope, TooLarge
from broker.limits import ENVELOPE_BYTES_MAX
from broker.triggers.fields import Fields
from broker.triggers.render import rendered
from broker.triggers.splice import append_items, set_member

SOURCE_OF_TRIGGERS = "trigger:"
SENDER_OF_TRIGGERS = "triggers/"
TYPE_DEFAULT = "trigger.notify"

_encode = msgspec.json.encode


class Link(NamedTuple):
    """One step of a chain: an event, and the rule that it set off."""

    source: str
    id: str
    rule: str


Chain = tuple[Link, ...]
"""The steps that led to an event, the first one first."""


def source_system(rule_id: str) -> str:
    """The first half of the identity of what a rule emits."""
    return f"{SOURCE_OF_TRIGGERS}{rule_id}"


def derived_id(rule_id: str, position: int, source: str, event_id: str) -> str:
    """The id of what the action at this position of a rule emits for a cause."""
    return "t-" + hashlib.sha256(_encode([rule_id, position, source, event_id])).hexdigest()[:32]


def emitted(rule_id: str, position: int, action: Action, fields: Fields, chain: Chain) -> InboundEvent:
    """The event that a notify or a route makes of a cause, whose own chain is given."""
    cause = fields.event
    event_id = derived_id(rule_id, position, cause.source_system, cause.source_event_id)
    steps = (*chain, Link(cause.source_system, cause.source_event_id, rule_id))
    told = {"hops": len(steps), "chain": [step._asdict() for step in steps]}
    target = action.to or ""
    if action.action == "route" and fields.is_courier:
        envelope = _routed(event_id, target, fields, _encode(told))
    else:
        envelope = _encode(_notice(rule_id, event_id, target, action, fields, told))
    if len(envelope) <= ENVELOPE_BYTES_MAX:  # a longer one is refused below, and not walked through before
        check_depth(envelope)
    event = courier.parse_envelope(target, envelope, cause.received_at)
    return event._replace(source_system=source_system(rule_id))


def _notice(
    rule_id: str, event_id: str, target: str, action: Action, fields: Fields, told: dict[str, Any]
) -> dict[str, Any]:
    """A new envelope. A route of an event of another contract is one too, with all that was received as its payload."""
    cause = fields.event
    ts = datetime.fromtimestamp(cause.received_at / 1_000_000, UTC).isoformat(timespec="milliseconds")
    envelope: dict[str, Any] = {
        "id": event_id,
        "ts": ts.replace("+00:00", "Z"),
        "from": f"{SENDER_OF_TRIGGERS}{rule_id}",
        "to": target,
        "type": TYPE_DEFAULT if action.type is None else rendered(action.type, fields),
        "corr": Raw(_correlation(fields)),
    }
    if action.action == "route":
        envelope["type"] = cause.type
        envelope["payload"] = Raw(cause.envelope)
    elif action.payload is None:
        envelope["payload"] = {"ref": cause.source_event_id, "to": cause.stream, "type": cause.type}
    else:
        envelope["payload"] = rendered(action.payload, fields)
    if action.tags:
        envelope["tags"] = rendered(action.tags, fields)
    envelope["headers"] = rendered(action.headers, fields) | {CAUSE_HEADER: told}
    return envelope


def _routed(event_id: str, target: str, fields: Fields, told: bytes) -> bytes:
    """The envelope as it is, with an id and a stream of its own, and with what led to it."""
    envelope = set_member(fields.event.envelope, "id", _encode(event_id))
    envelope = set_member(envelope, "to", _encode(target))
    if fields.raw("corr") is None:
        envelope = set_member(envelope, "corr", _correlation(fields))
    return set_member(envelope, "headers", set_member(fields.raw("headers") or b"{}", CAUSE_HEADER, told))


def _correlation(fields: Fields) -> bytes:
    """The correlation of an effect: that of its cause, or else the id of its cause."""
    return fields.raw("corr") or _encode(fields.event.source_event_id)


def enriched(action: Action, fields: Fields) -> InboundEvent:
    """The event with headers and tags added, its other bytes as they were, and the hash of what was received kept."""
    event = fields.event
    if not fields.is_courier:
        raise InvalidEnvelope(
            f"an event of the contract {event.contract!r} is stored as it came; enrich cannot add to it"
        )
    envelope = event.envelope
    if action.headers:
        headers = fields.raw("headers") or b"{}"
        for name, value in action.headers.items():
            headers = set_member(headers, name, _encode(rendered(value, fields)))
        envelope = set_member(envelope, "headers", headers)
    tags = [tag for tag in map(_tag, rendered(action.tags, fields)) if tag not in fields.tags]
    if tags:
        items = [_encode(tag) for tag in dict.fromkeys(tags)]
        envelope = set_member(envelope, "tags", append_items(fields.raw("tags") or b"[]", items))
    if len(envelope) > ENVELOPE_BYTES_MAX:
        raise TooLarge(f"the envelope would have {len(envelope)} bytes; at most {ENVELOPE_BYTES_MAX} are accepted")
    check_depth(envelope)
    return event._replace(
        envelope=envelope,
        payload_sha256=hashlib.sha256(envelope).digest(),
        received_sha256=event.received_sha256 or event.payload_sha256 or hashlib.sha256(event.envelope).digest(),
    )


def _tag(value: str | Raw) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        raise InvalidEnvelope(f"a tag is text, and this one became {bytes(value)[:80].decode()}") from None

"""The whole life of one event: where it is, what became of it, what caused it and what it caused.

What rules emitted is found in `causes`, which has a row for each effect, written in the commit of the effect and
its cause; so the answer is complete, also for rules that are gone. Rejected: deriving the ids that the rules of
today would have given, which knows nothing of the rules of yesterday.

An id alone is looked for source by source. The unique index has the sources in order, so the next one is one
step in it, and the id is another; redriven events have a source each, and are passed over in one step, since the
event that they were says what it was redriven as. Rejected: an index on the id alone, which every insert would
pay for (`browse` has the measurement of such an index).
"""

from typing import Any, NamedTuple

import apsw

from broker.contracts.courier import source_system as source_of_stream
from broker.contracts.inbound import InboundEvent
from broker.journal.reader import matches
from broker.limits import WHY_CHAIN_MAX, WHY_FOUND_MAX, WHY_SOURCES_MAX

REDRIVE = "redrive:"
_LAST_REDRIVE = "redrive:\U0010ffff"
"""Behind every source of a redriven event, and before any other."""


class Brief(NamedTuple):
    """One event in a line."""

    seq: int
    source: str
    id: str
    stream: str
    type: str
    state: str
    received_at: int
    cause_seq: int | None
    """What caused it, if that was an event of the ledger."""


class Life(NamedTuple):
    """Everything that the ledger knows of one event."""

    facts: dict[str, Any]
    event: InboundEvent | None
    """The event itself; None when its contents are gone or no longer what was stored."""
    redriven_from: int | None
    causes: list[Brief]
    """What led to it, the first one first."""
    effects: list[Brief]
    """What came of it, in the order of the commits; also what came of that."""
    effects_complete: bool


_FACTS = (
    "seq", "contract", "stream", "type", "source_system", "source_event_id", "process_state", "process_attempts",
    "process_first_attempt_at", "process_error", "redriven_as", "received_at", "ingest_last_seen_at",
    "duplicate_count", "payload_conflict_count", "processed_at", "correlation_id", "notes",
)  # fmt: skip

_LIFE = f"""
SELECT {", ".join(_FACTS)}, payload_sha256, received_sha256, envelope FROM ledger
WHERE source_system = ? AND source_event_id = ?
"""  # noqa: S608 - column names of this file

_BRIEF = """
SELECT ledger.seq, source_system, source_event_id, stream, type, process_state, received_at, cause_seq
FROM ledger LEFT JOIN causes ON effect_seq = ledger.seq
"""
_BY_IDENTITY = _BRIEF + "WHERE source_system = ? AND source_event_id = ?"
_BY_SEQ = _BRIEF + "WHERE ledger.seq = ?"
_BY_CAUSE = """
SELECT ledger.seq, source_system, source_event_id, stream, type, process_state, received_at, cause_seq
FROM causes JOIN ledger ON ledger.seq = effect_seq WHERE cause_seq = ? ORDER BY effect_seq LIMIT ?
"""
_NEXT_SOURCE = "SELECT source_system FROM ledger WHERE source_system > ? ORDER BY source_system LIMIT 1"


def life(connection: apsw.Connection, source: str, event_id: str) -> Life | None:
    """The life of the event with this identity; None if there is none."""
    row = connection.execute(_LIFE, (source, event_id)).fetchone()
    if row is None:
        return None
    *values, stored_sha256, received_sha256, envelope = row
    facts = dict(zip(_FACTS, values, strict=True))
    facts["payload_sha256"], facts["received_sha256"] = stored_sha256.hex(), (received_sha256 or stored_sha256).hex()
    facts["enriched"], facts["emptied"] = received_sha256 is not None, envelope is None
    event = None
    if envelope is not None and matches(envelope, stored_sha256):
        names = ("contract", "stream", "type", "source_system", "source_event_id", "received_at", "correlation_id")
        known: dict[str, Any] = {name: facts[name] for name in names}
        event = InboundEvent(**known, envelope=envelope, payload_sha256=stored_sha256)
    effects = _effects(connection, facts["seq"])
    return Life(
        facts,
        event,
        _redriven_from(source),
        _causes(connection, facts["seq"]),
        effects[:WHY_CHAIN_MAX],
        len(effects) <= WHY_CHAIN_MAX,
    )


def _briefs(connection: apsw.Connection, sql: str, *values: Any) -> list[Brief]:
    rows: list[Any] = connection.execute(sql, values).fetchall()
    return [Brief(*row) for row in rows]


def _redriven_from(source: str) -> int | None:
    number = source.removeprefix(REDRIVE)
    return int(number) if number != source and number.isascii() and number.isdigit() else None


def _causes(connection: apsw.Connection, seq: int) -> list[Brief]:
    found: list[Brief] = []
    (cause_seq,) = (event.cause_seq for event in _briefs(connection, _BY_SEQ, seq))
    while cause_seq is not None and len(found) < WHY_CHAIN_MAX:
        (cause,) = _briefs(connection, _BY_SEQ, cause_seq)
        found.append(cause)
        cause_seq = cause.cause_seq
    return found[::-1]


def _effects(connection: apsw.Connection, seq: int) -> list[Brief]:
    """What an event caused, and what that caused; one more than is shown, if there is more."""
    found: list[Brief] = []
    following = [seq]
    while following and len(found) <= WHY_CHAIN_MAX:
        effects = _briefs(connection, _BY_CAUSE, following.pop(0), WHY_CHAIN_MAX + 1 - len(found))
        found += effects
        following += [effect.seq for effect in effects]
    return found


def by_seq(connection: apsw.Connection, seq: int) -> tuple[list[Brief], bool]:
    """The event with this sequence; and that there is no other."""
    return _briefs(connection, _BY_SEQ, seq), True


def by_id(connection: apsw.Connection, event_id: str, stream: str | None) -> tuple[list[Brief], bool]:
    """Events with this id, whatever their source, perhaps of one stream only; and whether these are all."""
    likely = None if stream is None else source_of_stream(stream)
    found = [] if likely is None else _briefs(connection, _BY_IDENTITY, likely, event_id)
    source = ""
    for _ in range(WHY_SOURCES_MAX):
        source = connection.execute(_NEXT_SOURCE, (source,)).get
        if source is None:
            return found, True
        if source.startswith(REDRIVE):
            source = _LAST_REDRIVE
        elif source != likely:
            more = _briefs(connection, _BY_IDENTITY, source, event_id)
            found += [event for event in more if stream is None or event.stream == stream]
        if len(found) >= WHY_FOUND_MAX:
            return found, False
    return found, False


def by_source(connection: apsw.Connection, source: str, event_id: str) -> tuple[list[Brief], bool]:
    """The event with this identity; and that there is no other."""
    return _briefs(connection, _BY_IDENTITY, source, event_id), True

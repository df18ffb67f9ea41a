"""The answers of the queries and of the operator's actions, as they are on the wire.

They are encoded from these structs, and the OpenAPI document is generated from them, so the two agree.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Raw

from broker.contracts.courier import Envelope
from broker.limits import DISCARD_REASON_BYTES_MAX, FILTER_TEXT_BYTES_MAX, REPLAY_PER_SECOND_MAX, REPLAY_PER_SECOND_MIN

Seq = Annotated[int, Meta(ge=1)]
State = Literal["pending", "processed", "dead_letter"]


class Shape(msgspec.Struct, rename="camel", kw_only=True):
    """Something on the wire, its fields in camel case."""


class EnqueueRequest(Shape):
    """A stream and an event for it."""

    to: str
    envelope: Envelope


class EnqueueReply(msgspec.Struct, omit_defaults=True):
    """An event that is on disk."""

    id: str
    seq: Seq
    duplicate: bool
    payload_conflict: bool = False


class ErrorDetail(msgspec.Struct):
    """What was wrong, and what to do."""

    code: str
    message: str
    retryable: bool
    retry_after_seconds: Annotated[int, Meta(ge=0)]


class Error(msgspec.Struct):
    """The one shape of every refusal."""

    error: ErrorDetail


class Alive(Shape):
    """The process is there."""

    status: Literal["alive"]


class Readiness(Shape, omit_defaults=True):
    """Whether events are taken, and what an acknowledgement means."""

    status: Literal["ready", "not ready"]
    durability: str
    acknowledgement: str
    reasons: list[str] = []


class StreamList(Shape):
    """Names of streams, sorted; `next` is the `after` of the next page."""

    streams: list[str]
    next: str | None


class StreamTotals(Shape):
    """What happened on a stream since the start of the broker."""

    in_: int = msgspec.field(name="in")
    out: int
    ack: int
    nack: int
    redelivered: int
    dead: int


class StreamMetrics(Shape):
    """The same figures under the names of 003 §10; latencies in milliseconds."""

    events_in: int = msgspec.field(name="q.in")
    events_out: int = msgspec.field(name="q.out")
    ack: int = msgspec.field(name="q.ack")
    nack: int = msgspec.field(name="q.nack")
    redelivered: int = msgspec.field(name="q.re")
    depth: int = msgspec.field(name="q.depth")
    in_flight: int = msgspec.field(name="q.if")
    lat_p50: float | None = msgspec.field(name="q.lat.p50")
    lat_p95: float | None = msgspec.field(name="q.lat.p95")


class StreamStats(Shape):
    """A stream in figures (003 §7.1), with totals since the start of the broker beside them."""

    depth: int
    inflight: int
    rate_in: float
    rate_out: float
    lat_p50: float | None = msgspec.field(name="latP50")
    lat_p95: float | None = msgspec.field(name="latP95")
    last_ts: str | None
    subscribers: int
    durability: Literal["journal", "memory"]
    totals: StreamTotals
    metrics: StreamMetrics


class Snapshot(Shape):
    """A view as it is once everything up to `seq` is in it: the last envelope of each address, as it came."""

    view: str
    seq: Annotated[int, Meta(ge=0)]
    snapshot: dict[str, Raw]


class GroupRegistration(Shape):
    """A consumer group, and the stream or the pattern of streams that it has copies of, from a sequence on."""

    group: str
    stream: str
    since: int


class GroupList(Shape):
    """The consumer groups, the oldest first."""

    groups: list[GroupRegistration]


class GroupFigures(Shape):
    """A group's copy of one stream: up to where everything is settled, and what is not."""

    group: str
    position: int
    depth: int
    inflight: int
    subscribers: int
    dead: int


class StreamGroups(Shape):
    """The groups that have a copy of a stream."""

    groups: list[GroupFigures]


class GroupDeleted(Shape):
    """A group that has no copy of these streams any more."""

    group: str
    stream: str
    deleted: bool


class StreamFigures(StreamStats):
    """A stream in figures, with its name and the age of its oldest unfinished event in milliseconds."""

    stream: str
    oldest_ms: float | None


class FiguresPage(Shape):
    """Streams in figures, sorted by name; `next` is the `after` of the next page."""

    streams: list[StreamFigures]
    next: str | None


class Receipt(Shape):
    """What became of one identity."""

    source: str
    id: str
    seq: Seq
    stream: str
    type: str
    contract: str
    state: State
    leased: bool
    attempts: int
    received_at: str
    last_seen_at: str
    duplicates: int
    payload_conflicts: int
    processed_at: str | None
    reason: str | None
    redriven_as: int | None
    payload_sha256: str = msgspec.field(name="payloadSha256")
    emptied: bool
    notes: dict[str, Any] | None


class StreamEvent(Shape):
    """An event of a stream, in whatever state; its envelope is null when retention has emptied it."""

    seq: Seq
    source: str
    id: str
    type: str
    state: State
    leased: bool
    attempts: int
    received_at: str
    reason: str | None
    redriven_as: int | None
    emptied: bool
    corrupt: bool
    envelope: Raw


class EventPage(Shape):
    """Events in order; `next` is the `from` of the next page."""

    events: list[StreamEvent]
    next: int | None


class DeadLetterSummary(Shape):
    """A dead letter without its envelope."""

    seq: Seq
    stream: str
    type: str
    source: str
    id: str
    reason: str
    attempts: int
    received_at: str
    first_attempt_at: str | None
    dead_at: str


class DeadLetterPage(Shape):
    """Dead letters in order; `next` is the `after` of the next page."""

    dead_letters: list[DeadLetterSummary]
    next: int | None


class DeadLetterWhole(DeadLetterSummary):
    """A dead letter with its envelope, as it came."""

    corrupt: bool
    envelope: Raw


class Replayed(Shape):
    """A dead letter that was replayed: what it is now."""

    seq: Seq
    redriven_as: Seq


class DiscardRequest(Shape, forbid_unknown_fields=True):
    """Why a dead letter is let go."""

    reason: Annotated[str, Meta(min_length=1, max_length=DISCARD_REASON_BYTES_MAX)]


class Discarded(Shape):
    """A dead letter that was let go."""

    seq: Seq
    discarded: bool


FilterText = Annotated[str, Meta(min_length=1, max_length=FILTER_TEXT_BYTES_MAX)]


class DeadLetterFilter(Shape, forbid_unknown_fields=True):
    """Which dead letters are meant: every part that is given must match. Without any part, all of them."""

    stream: FilterText | None = None
    type: FilterText | None = None
    reason: FilterText | None = None
    group: FilterText | None = None


class BulkReplayRequest(Shape, forbid_unknown_fields=True):
    """Which dead letters to replay, how fast, or only how many there are."""

    filter: DeadLetterFilter
    dry_run: bool = False
    per_second: Annotated[float, Meta(ge=REPLAY_PER_SECOND_MIN, le=REPLAY_PER_SECOND_MAX)] | None = None


class BulkDiscardRequest(DiscardRequest, forbid_unknown_fields=True):
    """Which dead letters to let go, and why, or only how many there are."""

    filter: DeadLetterFilter
    dry_run: bool = False


class Matching(Shape):
    """What a bulk action would touch."""

    matching: int


class ProgressLine(Shape):
    """One line of a bulk action: how far it has come, or what stopped it."""

    done: int
    total: int
    finished: bool


def shown_time(microseconds: int) -> str:
    """A time of the ledger, as RFC 3339 with milliseconds."""
    text = datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def shown_time_or_none(microseconds: int | None) -> str | None:
    """The same for a time that may not have come."""
    return None if microseconds is None else shown_time(microseconds)


NOTHING = Raw(b"null")


def shape_response(shape: Shape) -> web.Response:
    """A struct as an answer. msgspec encodes it and not orjson, because it puts the bytes of a Raw as they are."""
    return web.Response(body=msgspec.json.encode(shape), content_type="application/json")

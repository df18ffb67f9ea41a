"""What `/v1/triggers` and `/v1/why` take and answer, as it is on the wire."""

from typing import Literal

from msgspec import Raw

from broker.config import Trigger
from broker.contracts.courier import Envelope
from broker.front.shapes import Receipt, Seq, Shape, State

Origin = Literal["config", "api"]


class TriggerCounts(Shape):
    """What a rule has done since the start of the broker, or since it was put."""

    matched: int
    ran: int
    held_back: int
    failed: int
    missing_fields: int
    last_error: str | None
    last_error_at: str | None


class TriggerShown(Shape):
    """A rule, where it comes from, and what it has done."""

    rule: Trigger
    origin: Origin
    counts: TriggerCounts


class TriggerList(Shape):
    """Every rule, in the order in which they are looked at; and how many cooldowns were cut short for want of room."""

    triggers: list[TriggerShown]
    cooldowns_forgotten: int


class TriggerDeleted(Shape):
    """A rule that is no more."""

    id: str
    deleted: bool


class TriggerTest(Shape, forbid_unknown_fields=True):
    """An envelope to try the rules on."""

    envelope: Envelope


class RuleVerdict(Shape):
    """Whether a rule is for an event, and if not, why."""

    id: str
    origin: Origin
    matches: bool
    miss: str | None


class RuleTried(RuleVerdict):
    """The same, with what would come of it."""

    held_back: bool
    errors: list[str]
    missing_fields: int


class Effect(Shape):
    """An event that a rule would emit."""

    rule: str
    action: int
    to: str
    hops: int
    envelope: Raw


class TriggerTried(Shape):
    """What rules would make of an envelope: as it would be stored, and what they would emit."""

    rules: list[RuleTried]
    envelope: Raw
    emitted: list[Effect]
    further_errors: list[str]


class EventBrief(Shape):
    """One event in a line; `rule` is the one that emitted it."""

    seq: Seq
    source: str
    id: str
    stream: str
    type: str
    state: State
    received_at: str
    rule: str | None
    caused_by_seq: int | None


class WhyFound(Shape):
    """The events that are meant, perhaps; `complete` is false when there may be more."""

    events: list[EventBrief]
    complete: bool


class RulesConsidered(Shape):
    """What the rules say of an event, as they are now; what they did then is in `caused`."""

    evaluated: Literal["now", "not"]
    note: str
    rules: list[RuleVerdict]


class Why(Receipt):
    """The whole life of one event."""

    first_attempt_at: str | None
    correlation_id: str | None
    enriched: bool
    received_sha256: str
    redriven_from: int | None
    rule: str | None
    caused_by: list[EventBrief]
    caused: list[EventBrief]
    caused_complete: bool
    hidden: int
    considered: RulesConsidered | None

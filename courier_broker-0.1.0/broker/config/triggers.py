"""The shape of a trigger: which envelopes it is for, and what it does with them (003 §8.2)."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from broker import limits
from broker.config.parts import (
    CooldownKey,
    Entry,
    HeaderTemplate,
    HeaderValue,
    MapKey,
    Sender,
    StreamName,
    StreamPattern,
    Tag,
    TagTemplate,
    TriggerId,
    TypePattern,
    TypeTemplate,
)


class When(Entry, frozen=True, kw_only=True):
    """Which envelopes a trigger is for: all that is given must match."""

    to: Annotated[StreamPattern | None, Meta(description="The stream, by pattern.")] = None
    from_: Annotated[Sender | None, Meta(description="The sender, exactly.")] = field(default=None, name="from")
    type: Annotated[
        TypePattern | None,
        Meta(description="The type, by pattern: `*` stands for one part between dots, `**` for the rest."),
    ] = None
    tags: Annotated[tuple[Tag, ...], Meta(description="Tags that must all be there.")] = ()
    headers: Annotated[
        dict[MapKey, HeaderValue], Meta(description="Headers that must all be there with these values.")
    ] = field(default_factory=dict)


class Action(Entry, frozen=True, kw_only=True):
    """What a trigger does with an envelope that matches."""

    action: Annotated[
        Literal["enrich", "notify", "route"],
        Meta(
            description="`notify` emits a new envelope, `route` also puts this one on another stream, "
            "`enrich` adds headers and tags to it before it is stored."
        ),
    ]
    to: Annotated[StreamName | None, Meta(description="The stream to write to; `notify` and `route` need it.")] = None
    type: Annotated[
        TypeTemplate | None, Meta(description="`notify`: the type of the new envelope; left out, `trigger.notify`.")
    ] = None
    payload: Annotated[
        Any,
        Meta(
            description="`notify`: its payload, in which `${env.id}` stands for a field of the envelope; "
            "left out, `{ref, to, type}` of the cause."
        ),
    ] = None
    tags: Annotated[
        tuple[TagTemplate, ...], Meta(description="`notify`: tags of the new envelope; `enrich`: tags to add.")
    ] = ()
    headers: Annotated[
        dict[MapKey, HeaderTemplate],
        Meta(description="`notify`: headers of the new envelope; `enrich`: headers to set."),
    ] = field(default_factory=dict)


class TriggerLimits(Entry, frozen=True, kw_only=True):
    """What keeps a trigger from making a storm."""

    cooldown_ms: Annotated[
        int,
        Meta(
            ge=0,
            le=limits.TRIGGER_COOLDOWN_MS_MAX,
            description="After it ran, a trigger rests for this long. Nothing holds `enrich` back.",
        ),
    ] = 0
    cooldown_key: Annotated[
        CooldownKey | None,
        Meta(description="Rest for each value of this text by itself, such as `${env.from}`; null: for all together."),
    ] = None


class Trigger(Entry, frozen=True, kw_only=True):
    """A rule that is evaluated when an envelope is inserted."""

    id: Annotated[TriggerId, Meta(description="The name of the rule; unique.")]
    when: Annotated[When, Meta(description="Which envelopes it is for.")]
    do: Annotated[tuple[Action, ...], Meta(min_length=1, description="What to do, in order.")]
    limits: Annotated[TriggerLimits, Meta(description="What keeps it from making a storm.")] = TriggerLimits()

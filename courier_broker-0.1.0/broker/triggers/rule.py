"""One rule, made ready: what it matches, and why it does not."""

from typing import Any, Literal

from broker.config import Trigger
from broker.contracts.names import pattern_matches
from broker.contracts.types import type_pattern_matches
from broker.triggers.fields import Fields
from broker.triggers.tally import Tally

Origin = Literal["config", "api"]


class Rule:
    """A trigger of the configuration or of the API, with what it has done so far."""

    def __init__(self, trigger: Trigger, origin: Origin, tally: Tally | None = None) -> None:
        self.trigger = trigger
        self.origin: Origin = origin
        self.tally = tally or Tally(trigger.id)
        self.enriches = tuple((at, each) for at, each in enumerate(trigger.do) if each.action == "enrich")
        """The actions that add to the envelope, each with its position."""
        self.emits = tuple((at, each) for at, each in enumerate(trigger.do) if each.action != "enrich")
        """The actions that make an event, each with its position."""

    @property
    def id(self) -> str:
        """Its name."""
        return self.trigger.id

    def miss_by_name(self, stream: str, event_type: str) -> str | None:
        """Why it is not for events of this stream and type; None if it may be."""
        when = self.trigger.when
        if when.to is not None and not pattern_matches(when.to, stream):
            return f"to is {stream!r}, and when.to is {when.to!r}"
        if when.type is not None and not type_pattern_matches(when.type, event_type):
            return f"type is {event_type!r}, and when.type is {when.type!r}"
        return None

    def miss_by_fields(self, fields: Fields) -> str | None:
        """Why it is not for an event whose stream and type fit; None if it is."""
        when = self.trigger.when
        if when.from_ is not None and fields.sender != when.from_:
            found = "there is no from" if fields.sender is None else f"from is {fields.sender!r}"
            return f"{found}, and when.from is {when.from_!r}"
        for tag in when.tags:
            if tag not in fields.tags:
                return f"the tag {tag!r} is not there"
        for name, wanted in when.headers.items():
            if name not in fields.headers:
                return f"the header {name!r} is not there"
            if not _same(fields.headers[name], wanted):
                return f"the header {name!r} is {fields.headers[name]!r}, and when.headers has {wanted!r}"
        return None

    def miss(self, fields: Fields) -> str | None:
        """Why it is not for an event; None if it is."""
        return self.miss_by_name(fields.event.stream, fields.event.type) or self.miss_by_fields(fields)


def _same(found: Any, wanted: Any) -> bool:
    """Whether two JSON values are equal. True is not 1; but 1 and 1.0 are one number."""
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)

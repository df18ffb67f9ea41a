"""The fields of one event, as the rules see them: decoded when they are asked for, and no further.

An event of the Courier contract is its envelope. One of another contract is seen as an envelope too: its id,
stream, type, source and correlation, with all that was received as its payload.
"""

from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw

from broker.contracts import courier
from broker.contracts.inbound import InboundEvent

Path = tuple[str, ...]

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder().decode


class Fields:
    """What `env` stands for. Values come as their JSON, byte for byte."""

    def __init__(self, event: InboundEvent) -> None:
        self.event = event
        self.missing = 0
        """How many fields were asked for and not there."""

    @property
    def is_courier(self) -> bool:
        """Whether the event is an envelope of the Courier contract."""
        return self.event.contract == courier.CONTRACT

    @cached_property
    def _top(self) -> dict[str, Raw]:
        event = self.event
        if self.is_courier:
            return _decode_object(event.envelope)
        known = {"id": event.source_event_id, "to": event.stream, "type": event.type, "from": event.source_system}
        if event.correlation_id is not None:
            known["corr"] = event.correlation_id
        top = {key: Raw(msgspec.json.encode(value)) for key, value in known.items()}
        return top | {"payload": Raw(event.envelope)}

    def find(self, path: Path) -> bytes | None:
        """The JSON of a field, by the names and places on the way to it; None if there is none."""
        value: Raw | None = self._top.get(path[0])
        for part in path[1:]:
            if value is None:
                break
            value = _inside(bytes(value), part)
        if value is None:
            self.missing += 1
            return None
        return bytes(value)

    @cached_property
    def sender(self) -> str | None:
        """Who sent it, if that is said."""
        sender = self._decoded("from")
        return sender if isinstance(sender, str) else None

    @cached_property
    def tags(self) -> list[Any]:
        """Its tags."""
        tags = self._decoded("tags")
        return tags if isinstance(tags, list) else []

    @cached_property
    def headers(self) -> dict[str, Any]:
        """Its headers."""
        headers = self._decoded("headers")
        return headers if isinstance(headers, dict) else {}

    def raw(self, key: str) -> bytes | None:
        """The JSON of a member of the envelope, which may well not be there."""
        value = self._top.get(key)
        return None if value is None else bytes(value)

    def _decoded(self, key: str) -> Any:
        value = self._top.get(key)
        return None if value is None else _decode_any(value)


def _inside(value: bytes, part: str) -> Raw | None:
    """A member of an object, or an item of an array."""
    first = value.lstrip()[:1]
    if first == b"{":
        return _decode_object(value).get(part)
    if first == b"[" and part.isascii() and part.isdigit() and len(part) <= 9:
        items = _decode_array(value)
        return items[int(part)] if int(part) < len(items) else None
    return None

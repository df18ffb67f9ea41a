"""A reader of a view, which folds the frames that it gets."""

import json
from typing import Any, NamedTuple

from broker.contracts.inbound import InboundEvent
from broker.streams.entry import MEMORY_SEQ_FIRST

VIEW = "latestPerAgent"


def agent(name: object) -> str:
    """The address of an agent."""
    return f"agents/{name}/inbox"


def inbound(stream: str, envelope: bytes) -> InboundEvent:
    """An event as a view sees it."""
    return InboundEvent("courier", stream, "t", f"stream:{stream}", "e", 0, envelope, b"")


class Frame(NamedTuple):
    """A frame of `WS /v1/live`."""

    kind: str
    entries: dict[str, Any]
    seq: int
    more: bool

    @classmethod
    def of(cls, text: str | bytes) -> "Frame":
        """Read a frame, which must have exactly the documented fields."""
        fields = json.loads(text)
        (kind,) = fields.keys() & {"snapshot", "delta"}
        assert fields.keys() <= {kind, "seq", "more"}, fields
        assert fields.get("more", True) is True
        return cls(kind, fields[kind], fields["seq"], "more" in fields)


class Folded:
    """What a reader knows, by the frames alone."""

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}
        self.seq = -1
        self.frames: list[Frame] = []

    def take(self, text: str | bytes) -> Frame:
        """Take one frame."""
        frame = Frame.of(text)
        assert self.frames or frame.kind == "snapshot", "the first frame is a snapshot"
        assert self.seq <= frame.seq < MEMORY_SEQ_FIRST, "a view does not go back"
        if frame.kind == "snapshot":
            assert None not in frame.entries.values()
            self.entries = {}
        for key, value in frame.entries.items():
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value
        self.seq = frame.seq
        self.frames.append(frame)
        return frame

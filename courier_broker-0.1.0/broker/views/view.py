"""A view: a map from a key to the last envelope of that key.

What belongs to a view, and under which key, is a `Rule`; a rule in a file of its own is all that a new view
needs. The map itself is the same for all, and bounded: past `entries_max` keys, or `bytes_max` bytes of envelopes,
the key that has been quiet for longest is forgotten, and counted. What is forgotten depends on the order of
the events alone, so that a restart comes to the same map.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from broker.contracts.inbound import InboundEvent
from broker.streams.entry import MEMORY_SEQ_FIRST


class Rule(NamedTuple):
    """What a view is called, and what it holds."""

    name: str
    key_of: Callable[[str, str], str | None]
    """The key of an event, from its stream and its type; None when the view is not about it. Pure, and quick."""


class Held(NamedTuple):
    """The last envelope of a key, byte for byte as it came."""

    seq: int
    envelope: bytes

    @property
    def in_ledger(self) -> bool:
        """Whether the ledger has it; else it is of a stream in memory, and lost with the process."""
        return self.seq < MEMORY_SEQ_FIRST


class Listener(Protocol):
    """Somebody who follows a view."""

    def changed(self, keys: Mapping[str, None]) -> None:
        """These keys have another envelope now, or none. Called once for each group commit; must not raise."""


class View:
    """The map of one view. Everything here runs on the loop."""

    def __init__(self, rule: Rule, entries_max: int, bytes_max: int) -> None:
        self.rule = rule
        self.seq = 0
        """Everything of the ledger up to here is in the map."""
        self.bytes = 0
        self.forgotten = 0
        """How many keys had to go, since the start."""
        self.listeners: set[Listener] = set()
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._held: dict[str, Held] = {}
        """In the order in which they last changed."""

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._held)

    def get(self, key: str) -> Held | None:
        """What is held under a key."""
        return self._held.get(key)

    def keys(self) -> Iterable[str]:
        """Every key, the quietest first."""
        return self._held.keys()

    def items(self) -> list[tuple[str, Held]]:
        """The whole map as it is now."""
        return list(self._held.items())

    def snapshot(self) -> tuple[int, dict[str, bytes]]:
        """Up to which sequence it goes, and the envelope of each key."""
        return self.seq, {key: held.envelope for key, held in self._held.items()}

    def take(self, events: Sequence[tuple[int, InboundEvent]]) -> None:
        """Take the new events of one group commit, or of streams in memory, in order."""
        key_of = self.rule.key_of
        changed: dict[str, None] = {}
        stream = kind = key = None
        for seq, event in events:
            if event.stream is not stream or event.type is not kind:  # they mostly are the same objects as before
                stream, kind = event.stream, event.type
                key = key_of(stream, kind)
            if key is not None:
                changed.pop(key, None)
                changed[key] = None
                self._put(key, Held(seq, event.envelope), changed)
        if events and events[-1][0] < MEMORY_SEQ_FIRST:
            self.seq = max(self.seq, events[-1][0])
        if changed:
            for listener in self.listeners:
                listener.changed(changed)

    def restore(self, rows: Iterable[tuple[str, int, bytes | None]]) -> None:
        """Take what was saved, or what the ledger has behind it: key, sequence and envelope, in order of sequence.

        Without an envelope (retention has taken it, or its bytes are damaged) the key has no last envelope.
        """
        changed: dict[str, None] = {}
        for key, seq, envelope in rows:
            known = self._held.get(key)
            if known is not None and known.seq >= seq:
                continue
            changed[key] = None
            if envelope is None:
                self._drop(key)
            else:
                self._put(key, Held(seq, envelope), changed)
        if changed:
            for listener in self.listeners:
                listener.changed(changed)

    def _put(self, key: str, held: Held, changed: dict[str, None]) -> None:
        self._drop(key)
        self._held[key] = held
        self.bytes += len(held.envelope)
        while len(self._held) > self._entries_max or self.bytes > self._bytes_max:
            quietest = next(iter(self._held))
            self._drop(quietest)
            self.forgotten += 1
            changed[quietest] = None

    def _drop(self, key: str) -> None:
        known = self._held.pop(key, None)
        if known is not None:
            self.bytes -= len(known.envelope)

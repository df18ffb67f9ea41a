"""Which rules rest, by rule and key.

A rule begins to rest when its event is on the way to the disk, not when it is there: else everything that
arrives meanwhile would pass, and a bulk insert is just that. If nothing comes of it (the event was a
duplicate, or was refused), the rest is given back.

But what arrived meanwhile was held back. So that a producer that sends its last events again, with new ones
behind them, does not hold back the new ones, the identities of the latest events are remembered, and one that is
known to be a duplicate begins no rest. Rejected: deciding it in the commit loop, where a duplicate is certain
to show. It would have to know of keys and of the batches before, for a case that this leaves very small: a
duplicate of an event that is not among the latest, and a new event within one commit of it.

Rests are in memory: after a restart no rule rests.
"""

from typing import NamedTuple

from broker.clock import Clock
from broker.limits import TRIGGER_CAUSES_KNOWN_MAX, TRIGGER_COOLDOWNS_MAX

_LOOKED_AT = 2
"""How many rests are looked at, to forget those that are over, for each one that is added."""


class Slot(NamedTuple):
    """What rests by itself: a rule, and the key of its `cooldownKey`, if it has one."""

    rule_id: str
    key: str


class Rest(NamedTuple):
    """A rest that was begun."""

    slot: Slot
    until_ms: int


class Cooldowns:
    """Every rest that is not over, and some that are."""

    def __init__(self, clock: Clock, entries_max: int = TRIGGER_COOLDOWNS_MAX) -> None:
        self._clock = clock
        self._entries_max = entries_max
        self._until: dict[Slot, int] = {}
        self.forgotten = 0
        """Rests that were cut short, because there were too many at once."""
        self._known: dict[tuple[str, str], None] = {}
        """The identities of the latest events that rules with a cooldown were for, the oldest first."""

    def __len__(self) -> int:
        return len(self._until)

    def copy(self) -> "Cooldowns":
        """The same rests, for a look at what would happen to an event that is new."""
        copied = Cooldowns(self._clock, self._entries_max)
        copied._until.update(self._until)
        return copied

    def is_known(self, source: str, event_id: str) -> bool:
        """Whether an event with this identity is certain to be a duplicate."""
        return (source, event_id) in self._known

    def know(self, source: str, event_id: str) -> None:
        """An event with this identity is stored."""
        self._known.pop((source, event_id), None)
        self._known[source, event_id] = None
        if len(self._known) > TRIGGER_CAUSES_KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def rests(self, slot: Slot) -> bool:
        """Whether a slot rests now."""
        return self._until.get(slot, 0) > self._clock.monotonic_ms()

    def begin(self, slot: Slot, cooldown_ms: int) -> Rest:
        """Let a slot that does not rest do so from now on."""
        now_ms = self._clock.monotonic_ms()
        if self._until.pop(slot, None) is None:
            self._make_room(now_ms)
        self._until[slot] = now_ms + cooldown_ms
        return Rest(slot, now_ms + cooldown_ms)

    def give_back(self, rest: Rest) -> None:
        """Nothing came of it: the slot may run at once. A rest that was begun since then stays."""
        if self._until.get(rest.slot) == rest.until_ms:
            del self._until[rest.slot]

    def _make_room(self, now_ms: int) -> None:
        """Forget what is over among the oldest few; if there are still too many, the oldest one."""
        for _ in range(min(_LOOKED_AT, len(self._until))):
            slot = next(iter(self._until))
            until_ms = self._until.pop(slot)
            if until_ms > now_ms:
                self._until[slot] = until_ms
        if len(self._until) >= self._entries_max:
            del self._until[next(iter(self._until))]
            self.forgotten += 1

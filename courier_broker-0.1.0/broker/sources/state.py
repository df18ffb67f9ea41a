"""How a source is doing: what `courier sources` and `/metrics` show. Plain numbers with one owner, its task."""

from typing import Literal

from broker.limits import SOURCE_ERROR_CHARACTERS_MAX

Phase = Literal["starting", "polling", "waiting", "connecting", "connected", "paused", "retrying", "stopped"]
Kind = Literal["rest", "websocket"]


class SourceState:
    """One source. Counters are since the start of the broker; the cursor is the one on disk."""

    def __init__(self, name: str, kind: Kind, stream: str, cursor: str | None) -> None:
        self.name = name
        self.kind = kind
        self.stream = stream
        self.cursor = cursor
        """Behind what was committed last; None before there was one."""
        self.phase: Phase = "starting"
        self.rounds = 0
        """How often it polled, or connected."""
        self.events = 0
        self.duplicates = 0
        self.rejected = 0
        self.errors = 0
        self.saturations = 0
        """How often it stopped reading because the ingest queue was full, or a quota used up."""
        self.failures = 0
        """How many rounds in a row have failed."""
        self.last_error: str | None = None
        self.last_error_at: int | None = None
        self.next_attempt_at: int | None = None
        """Microseconds since 1970; None while a round is under way."""

    @property
    def is_up(self) -> bool:
        """Whether it is connected, or its last round came to something."""
        return self.phase == "connected" or (self.failures == 0 and self.phase in ("polling", "waiting", "paused"))

    def began(self, phase: Phase) -> None:
        """A round has begun."""
        self.rounds += 1
        self.phase = phase
        self.next_attempt_at = None

    def succeeded(self) -> None:
        """Its server does what is asked of it."""
        self.failures = 0

    def failed(self, reason: str, now_us: int) -> None:
        """A round has come to nothing."""
        self.failures += 1
        self.errors += 1
        self.last_error = " ".join(reason.split())[:SOURCE_ERROR_CHARACTERS_MAX]
        self.last_error_at = now_us

    def rests(self, phase: Phase, until_us: int) -> None:
        """Nothing is done until then."""
        self.phase = phase
        self.next_attempt_at = until_us

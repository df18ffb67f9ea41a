"""What a rule has done since the broker started, in figures, and its last failure.

Failures are logged, but not each: a rule that fails for every event would fill the disk that the journal needs.
"""

import logging

from broker.limits import TRIGGER_LOG_INTERVAL_MS

log = logging.getLogger(__name__)


class Tally:
    """The counters of one rule. They count events that were new; a duplicate changes nothing."""

    __slots__ = (
        "_logged_at_ms", "_rule_id", "_unlogged", "failed", "held_back", "last_error", "last_error_at", "matched",
        "missing_fields", "ran",
    )  # fmt: skip

    def __init__(self, rule_id: str) -> None:
        self._rule_id = rule_id
        self._logged_at_ms: int | None = None
        self._unlogged = 0
        self.matched = 0
        """Events that it was for."""
        self.ran = 0
        """Of those: events for which it did all that it says."""
        self.held_back = 0
        """Of those: events that came while it rested."""
        self.failed = 0
        """Of those: events for which some action could not be done."""
        self.missing_fields = 0
        """Templates that asked for a field that was not there, and became null."""
        self.last_error: str | None = None
        self.last_error_at: int | None = None
        """Microseconds since 1970."""

    def fail(self, error: str, wall_us: int, now_ms: int) -> None:
        """Count a failure; say so in the log, once in a while."""
        self.failed += 1
        self.last_error, self.last_error_at = error, wall_us
        if self._logged_at_ms is not None and now_ms - self._logged_at_ms < TRIGGER_LOG_INTERVAL_MS:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more failures since the last of these lines)" if self._unlogged else ""
        log.warning("trigger %s failed: %s%s", self._rule_id, error, more)
        self._logged_at_ms, self._unlogged = now_ms, 0

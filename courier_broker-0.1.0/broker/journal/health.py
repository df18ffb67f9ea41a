"""How the journal is doing: written by the writer thread, read by `/readyz` and the metrics.

Every field is assigned whole, so that a reader on another thread sees the old value or the new one. Each counter
is counted on one thread only. The histograms are the writer's; another thread may ask for their buckets, which
are copied in one step under the GIL, and must take its counts from that copy alone.
"""

from collections.abc import Callable, Iterable

from _fast import Histogram


class JournalHealth:
    """Whether commits succeed, and figures about them."""

    def __init__(self, on_fatal: Callable[[str], None] = lambda _reason: None) -> None:
        self._on_fatal = on_fatal
        self.fatal: str | None = None
        """Why nothing can be acknowledged any more; None while all is well."""
        self.problem: str | None = None
        """What is wrong at the moment, and may pass."""
        self.critical = False
        """Whether the passing problem has lasted past its budget."""
        self.full = False
        """Whether the last commit found no room."""
        self.stalled = False
        """Whether one batch has been tried past its budget, and nothing behind it can be committed."""
        self.commits = 0
        self.events = 0
        self.saturations = 0
        """How often a producer found the ingest queue full."""
        self.retries = 0
        self.refused_full = 0
        self.commit_us = Histogram()
        """How long commits took."""
        self.batch_events = Histogram()
        """How many events commits had, those with none left out."""
        self.duplicates = 0
        self.payload_conflicts = 0
        self.checkpoints_by_thread = 0
        self.checkpoints_by_writer = 0
        self.commit_seconds_last = 0.0
        self.commit_seconds_total = 0.0
        self.wal_pinned = False
        """Whether a reader has kept the WAL from being reset past its bound."""

    def committed(self, events: int, seconds: float) -> None:
        """Count a commit, which also proves that a passing problem has passed."""
        self.commits += 1
        self.events += events
        self.commit_seconds_last = seconds
        self.commit_seconds_total += seconds
        self.commit_us.record(int(seconds * 1e6))
        if events:
            self.batch_events.record(events)
        self.problem = None
        self.critical = False
        self.full = False
        self.stalled = False

    def repeated(self, duplicates: Iterable[tuple[int, bool]]) -> None:
        """Count duplicates, of which each says whether its payload was another. On the loop."""
        for _received_at, differs in duplicates:
            self.duplicates += 1
            self.payload_conflicts += differs

    def retrying(self, problem: str, *, critical: bool) -> None:
        """Note a commit that failed and will be tried again."""
        self.retries += 1
        self.problem = problem
        self.critical = critical
        self.stalled = critical

    def disk_full(self, problem: str) -> None:
        """Note a commit that found no room."""
        self.refused_full += 1
        self.problem = problem
        self.critical = True
        self.full = True

    def failed(self, reason: str) -> None:
        """Note a failure after which nothing is acknowledged any more; only the first one counts."""
        if self.fatal is None:
            self.fatal = reason
            self.critical = True
            self._on_fatal(reason)

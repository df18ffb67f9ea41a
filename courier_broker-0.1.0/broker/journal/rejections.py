"""Refused events that are kept to be looked at, in the table `rejections`.

Anybody who may speak to the broker can be refused as often as they like, so all of it is bounded: the newest
`REJECTIONS_MAX` rows stay, a row holds the beginning of its body, and past a rate refusals are counted and not kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from broker.clock import Clock
from broker.journal.submission import Job
from broker.limits import (
    REJECTION_BODY_BYTES_MAX,
    REJECTION_TEXT_CHARACTERS_MAX,
    REJECTIONS_BURST_MAX,
    REJECTIONS_MAX,
    REJECTIONS_PER_SECOND_MAX,
)


class Rejection(NamedTuple):
    """A refused event, as far as it could be read; the parameters of the insert in their order."""

    contract: str
    source_system: str
    received_at: int
    code: str
    message: str
    body: bytes | None
    source_event_id: str | None = None
    event_id: str | None = None
    event_name: str | None = None
    schema_version: str | None = None
    dedupe_key: str | None = None
    last_transport_attempt: int | None = None


_INSERT = """
INSERT INTO rejections (
  contract, source_system, received_at, code, message, body,
  source_event_id, event_id, event_name, schema_version, dedupe_key, last_transport_attempt
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
"""
_FORGET = "DELETE FROM rejections WHERE id <= (SELECT max(id) FROM rejections) - ?"


class Rejections:
    """Decides which refusals are kept, and makes the job that keeps them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._allowed = float(REJECTIONS_BURST_MAX)
        self._counted_at_ms = clock.monotonic_ms()
        self.kept = 0
        self.dropped = 0
        """How many were past the rate, since the start of the broker."""

    def keep(self, rejections: Sequence[Rejection]) -> Job | None:
        """The job that writes those of these that are within the rate; None if there are none."""
        now = self._clock.monotonic_ms()
        refilled = (now - self._counted_at_ms) / 1000 * REJECTIONS_PER_SECOND_MAX
        self._allowed = min(self._allowed + refilled, float(REJECTIONS_BURST_MAX))
        self._counted_at_ms = now
        count = min(len(rejections), int(self._allowed))
        self._allowed -= count
        self.kept += count
        self.dropped += len(rejections) - count
        if not count:
            return None
        rows = [_bounded(rejection) for rejection in rejections[:count]]

        def job(connection: apsw.Connection) -> None:
            connection.executemany(_INSERT, rows)
            connection.execute(_FORGET, (REJECTIONS_MAX,))

        return job


def _bounded(rejection: Rejection) -> Rejection:
    """The same, with no text or body that is too long or that SQLite could not take."""
    kept = [_text(value) if isinstance(value, str) else value for value in rejection]
    bounded = Rejection._make(kept)
    return bounded._replace(body=None if rejection.body is None else rejection.body[:REJECTION_BODY_BYTES_MAX])


def _text(text: str) -> str:
    return text[:REJECTION_TEXT_CHARACTERS_MAX].encode("utf-8", "replace").decode()


class KeptRejection(NamedTuple):
    """A refusal that was kept, as its row has it."""

    number: int
    contract: str
    source_system: str
    received_at: int
    code: str
    message: str
    body: bytes | None
    source_event_id: str | None
    event_id: str | None
    event_name: str | None
    schema_version: str | None


_KEPT = """
SELECT id, contract, source_system, received_at, code, message, body, source_event_id, event_id, event_name,
  schema_version
FROM rejections
"""  # the table is small enough to be looked through: it has a bound


def kept_of(connection: apsw.Connection, source_system: str, source_event_id: str) -> KeptRejection | None:
    """The last refusal of one identity, if it is kept."""
    query = f"{_KEPT} WHERE source_system = ? AND source_event_id = ? ORDER BY id DESC LIMIT 1"
    row = connection.execute(query, (source_system, source_event_id)).fetchone()
    return None if row is None else KeptRejection._make(row)


def kept_page(
    connection: apsw.Connection, source_system: str | None, after: int, limit: int
) -> tuple[list[KeptRejection], int | None]:
    """The next refusals that are kept, of one source or of all, and the `after` of the next page."""
    query = f"{_KEPT} WHERE id > ?1 AND (?2 IS NULL OR source_system = ?2) ORDER BY id LIMIT ?3"
    rows = connection.execute(query, (after, source_system, limit + 1)).fetchall()
    found = [KeptRejection._make(row) for row in rows[:limit]]
    return found, found[-1].number if len(rows) > limit else None

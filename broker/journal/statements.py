"""The statements of the hot path, with the order of their parameters."""

from typing import NamedTuple

from broker.contracts.inbound import InboundEvent

# ?1 is the sequence; ?2 and on are the fields of InboundEvent in their order.
INSERT_EVENT = """
INSERT INTO ledger (
  seq, contract, stream, type, source_system, source_event_id, received_at, envelope, payload_sha256,
  source_sequence, source_emitted_at, correlation_id, event_id, dedupe_key, schema_version,
  partition_key, last_transport_attempt, received_sha256, notes, state_changed_at, ingest_last_seen_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?7, ?7)
ON CONFLICT (source_system, source_event_id) DO NOTHING
"""

# Never touches `state`: a duplicate does not bring a dead letter back (002). What is compared is what was received:
# a rule may have added to either of the two since.
COUNT_DUPLICATE = """
UPDATE ledger SET
  ingest_attempt_count = ingest_attempt_count + 1,
  ingest_last_seen_at = max(ingest_last_seen_at, ?7),
  payload_conflict_count = payload_conflict_count
    + (coalesce(received_sha256, payload_sha256) <> coalesce(?18, ?9)),
  last_transport_attempt = coalesce(?17, last_transport_attempt),
  notes = coalesce(notes, ?19)
WHERE source_system = ?5 AND source_event_id = ?6
RETURNING seq, received_at, coalesce(received_sha256, payload_sha256) <> coalesce(?18, ?9)
"""

# ?1 to ?7 is a run of sequences: what consumers acknowledge comes in runs. The `+` keeps SQLite from the index of
# pending events, which has them by stream.
CHANGE_STATE = """
UPDATE ledger SET
  state = ?2, state_changed_at = ?3, process_attempts = ?4,
  process_first_attempt_at = coalesce(process_first_attempt_at, ?5), process_error = ?6
WHERE seq BETWEEN ?1 AND ?7 AND +state = 0
"""

HASHED = (InboundEvent._fields.index("envelope"), InboundEvent._fields.index("payload_sha256"))
"""An event that comes without its hash gets it in the commit loop."""

LATEST = 2
"""Of changes that are written as one run, the latest `at` is written: at most a group commit after their own."""

LINK_CAUSE = "INSERT INTO causes (effect_seq, cause_seq) VALUES (?1, ?2)"


Change = tuple[int, int, int, int, int | None, str | None]
"""A StateChange, or a plain tuple like it: an event that was processed is one of very many, and making the named one
takes four times as long."""


class StateChange(NamedTuple):
    """What became of a delivery, or of its event; the parameters of CHANGE_STATE in their order."""

    seq: int
    state: int
    at: int
    attempts: int
    first_attempt_at: int | None = None
    error: str | None = None

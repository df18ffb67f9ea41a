"""The tables of `courier.db`, as numbered steps that are only ever added to.

`ledger` holds every accepted event, for ever; retention empties a row and keeps its identity. Times
are whole microseconds since 1970. Two things about its rows are for speed:

- What an acknowledgement changes (`state`, `state_changed_at`) keeps the size of the row, because
  SQLite then overwrites one page in place, and does not touch the envelope behind it. Hence `state` is
  a number (0 and 1 take no byte each), and `process_state` spells it out.
- Columns that follow from others are computed when read (`VIRTUAL`), and cost nothing when written.
"""

STATE_PENDING = 0
STATE_PROCESSED = 1
STATE_DEAD_LETTER = 2

_LEDGER = """
CREATE TABLE ledger (
  seq                      INTEGER PRIMARY KEY,
  contract                 TEXT NOT NULL,
  stream                   TEXT NOT NULL,
  type                     TEXT NOT NULL,
  source_system            TEXT NOT NULL,
  source_event_id          TEXT NOT NULL,
  state                    INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),
  state_changed_at         INTEGER NOT NULL,
  process_attempts         INTEGER NOT NULL DEFAULT 0,
  process_first_attempt_at INTEGER,
  process_error            TEXT,
  redriven_as              INTEGER REFERENCES ledger (seq),
  received_at              INTEGER NOT NULL,
  ingest_last_seen_at      INTEGER NOT NULL,
  ingest_attempt_count     INTEGER NOT NULL DEFAULT 1,
  payload_conflict_count   INTEGER NOT NULL DEFAULT 0,
  source_sequence          INTEGER,
  source_emitted_at        TEXT,
  correlation_id           TEXT,
  event_id                 TEXT,
  dedupe_key               TEXT,
  schema_version           TEXT,
  last_transport_attempt   INTEGER,
  payload_sha256           BLOB NOT NULL CHECK (length(payload_sha256) = 32),
  envelope                 BLOB,
  process_state            TEXT GENERATED ALWAYS AS
    (CASE state WHEN 0 THEN 'pending' WHEN 1 THEN 'processed' ELSE 'dead_letter' END) VIRTUAL,
  processed_at             INTEGER GENERATED ALWAYS AS (CASE WHEN state <> 0 THEN state_changed_at END) VIRTUAL,
  ingest_first_seen_at     INTEGER GENERATED ALWAYS AS (received_at) VIRTUAL,
  duplicate_count          INTEGER GENERATED ALWAYS AS (ingest_attempt_count - 1) VIRTUAL,
  dedupe_scope             TEXT GENERATED ALWAYS AS
    (CASE WHEN dedupe_key IS NOT NULL THEN source_system END) VIRTUAL,
  event_name               TEXT GENERATED ALWAYS AS (CASE WHEN dedupe_key IS NOT NULL THEN type END) VIRTUAL,
  UNIQUE (source_system, source_event_id)
) STRICT;
CREATE INDEX ledger_pending ON ledger (stream, seq) WHERE state = 0;
CREATE INDEX ledger_dead_letters ON ledger (stream, seq) WHERE state = 2;
CREATE INDEX ledger_dedupe_key ON ledger (dedupe_key) WHERE dedupe_key IS NOT NULL;
"""

_BESIDE_THE_LEDGER = """
CREATE TABLE rejections (
  id                     INTEGER PRIMARY KEY,
  contract               TEXT NOT NULL,
  source_system          TEXT NOT NULL,
  source_event_id        TEXT,
  event_id               TEXT,
  event_name             TEXT,
  schema_version         TEXT,
  dedupe_key             TEXT,
  last_transport_attempt INTEGER,
  received_at            INTEGER NOT NULL,
  code                   TEXT NOT NULL,
  message                TEXT NOT NULL,
  body                   BLOB
) STRICT;
CREATE INDEX rejections_received_at ON rejections (received_at);

CREATE TABLE marks (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE source_checkpoints (
  source_system TEXT PRIMARY KEY,
  cursor        TEXT NOT NULL,
  seq           INTEGER,
  updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE deferred_events (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  topic          TEXT NOT NULL,
  source         TEXT NOT NULL,
  payload        TEXT NOT NULL,
  correlation_id TEXT,
  fire_at        REAL NOT NULL,
  status         TEXT NOT NULL DEFAULT 'scheduled' CHECK (status IN ('scheduled', 'fired', 'cancelled')),
  created_at     REAL NOT NULL,
  fired_at       REAL
) STRICT;
CREATE INDEX deferred_events_due ON deferred_events (fire_at, id) WHERE status = 'scheduled';
"""


def _iso(column: str) -> str:
    """SQL that shows microseconds as RFC 3339 text."""
    return f"strftime('%Y-%m-%dT%H:%M:%S', {column} / 1000000, 'unixepoch') || printf('.%06dZ', {column} % 1000000)"


_VIEWS = f"""
CREATE VIEW event_inbox AS SELECT
  source_event_id AS event_id,
  CASE state WHEN 0 THEN 'received' WHEN 1 THEN 'processed' ELSE 'dead_letter' END AS status,
  {_iso("received_at")} AS received_at,
  {_iso("max(state_changed_at, ingest_last_seen_at)")} AS last_updated_at,
  CAST(envelope AS TEXT) AS payload
FROM ledger;

CREATE VIEW receipts AS
SELECT
  dedupe_key, dedupe_scope, source_event_id AS idempotency_key, coalesce(event_id, source_event_id) AS event_id,
  event_name, schema_version,
  {_iso("received_at")} AS first_seen_at, {_iso("ingest_last_seen_at")} AS last_seen_at,
  duplicate_count, last_transport_attempt, 'processed' AS status
FROM ledger
UNION ALL
SELECT
  dedupe_key, source_system, source_event_id, event_id, event_name, schema_version,
  {_iso("received_at")}, {_iso("received_at")}, 0, last_transport_attempt, 'rejected'
FROM rejections;

CREATE VIEW event_journal AS SELECT
  seq AS id,
  CASE WHEN stream GLOB 'topics/*' THEN substr(stream, 8) ELSE stream END AS topic,
  CASE WHEN source_system GLOB 'bus:*' THEN substr(source_system, 5) ELSE source_system END AS source,
  CAST(envelope AS TEXT) AS payload,
  correlation_id,
  CASE state WHEN 0 THEN 'pending' WHEN 1 THEN 'done' ELSE 'failed' END AS status,
  received_at / 1e6 AS created_at,
  processed_at / 1e6 AS processed_at,
  process_error AS error
FROM ledger;
"""  # noqa: S608 - the only thing put in is a column name of this file

_PARTITIONS = "ALTER TABLE ledger ADD COLUMN partition_key TEXT;"

# A group has a copy of a stream when a registration covers it. What it has not settled is what lies behind `position`,
# less the rows of `group_events`: settled ahead of it (1), or dead (2). A row may also say that the event is to be
# delivered again, wherever the position is (0): it was dead and is replayed, or was delivered in vain.
_GROUPS = """
CREATE TABLE group_registrations (
  pattern    TEXT NOT NULL,
  name       TEXT NOT NULL,
  since_seq  INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (name, pattern)
) STRICT, WITHOUT ROWID;

CREATE TABLE group_streams (
  id       INTEGER PRIMARY KEY,
  stream   TEXT NOT NULL,
  name     TEXT NOT NULL,
  position INTEGER NOT NULL,
  UNIQUE (stream, name)
) STRICT;

CREATE TABLE group_events (
  group_id         INTEGER NOT NULL REFERENCES group_streams (id) ON DELETE CASCADE,
  seq              INTEGER NOT NULL,
  state            INTEGER NOT NULL CHECK (state IN (0, 1, 2)),
  attempts         INTEGER NOT NULL,
  first_attempt_at INTEGER,
  changed_at       INTEGER NOT NULL,
  error            TEXT,
  PRIMARY KEY (group_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX group_events_kept ON group_events (seq) WHERE state <> 1;
CREATE INDEX group_events_replayed ON group_events (group_id, seq) WHERE state = 0;
"""

# `causes` has a row for each event that a rule emitted, written in the same commit. Which rule it was is in the
# source of the effect, so it is not said twice; events that nothing caused cost nothing.
_TRIGGERS = """
ALTER TABLE ledger ADD COLUMN received_sha256 BLOB;
CREATE TABLE causes (
  effect_seq INTEGER PRIMARY KEY REFERENCES ledger (seq),
  cause_seq  INTEGER NOT NULL REFERENCES ledger (seq)
) STRICT;
CREATE INDEX causes_by_cause ON causes (cause_seq);
CREATE TABLE trigger_rules (
  id         TEXT PRIMARY KEY,
  rule       TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

# What is materialised of views (003 §9), not SQL views: the last envelope of each key, as of a mark beside it.
_VIEW_ROWS = """
CREATE TABLE view_rows (
  view           TEXT NOT NULL,
  key            TEXT NOT NULL,
  seq            INTEGER NOT NULL,
  payload_sha256 BLOB NOT NULL,
  envelope       BLOB NOT NULL,
  PRIMARY KEY (view, key)
) STRICT;
"""

_CONTRACTS = """
ALTER TABLE ledger ADD COLUMN notes TEXT;

CREATE TABLE pixel_servers (
  dedupe_scope            TEXT NOT NULL,
  server_login            TEXT NOT NULL,
  plugin_version          TEXT,
  registration_at         INTEGER,
  registration_emitted_at TEXT,
  registration_sequence   INTEGER,
  heartbeat_at            INTEGER,
  heartbeat_emitted_at    TEXT,
  heartbeat_sequence      INTEGER,
  PRIMARY KEY (dedupe_scope, server_login)
) STRICT, WITHOUT ROWID;
"""

# A recurrence has at most one run in `deferrals` that is scheduled: the next one. Each run is there for good, under an
# id that follows from its time, so that it cannot come about twice.
# What was put off, and the view that document 004 asks for. An event that was refused when it was due waits until
# `retry_at`. `event_id` is there when whoever put it off named it; else the event is named after this row.
_DEFERRALS = """
CREATE TABLE deferrals (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  contract       TEXT NOT NULL,
  stream         TEXT NOT NULL,
  source         TEXT NOT NULL,
  event_id       TEXT,
  correlation_id TEXT,
  recurrence     TEXT,
  created_at     INTEGER NOT NULL,
  fire_at        INTEGER NOT NULL,
  status         TEXT NOT NULL DEFAULT 'scheduled' CHECK (status IN ('scheduled', 'fired', 'cancelled')),
  fired_at       INTEGER,
  seq            INTEGER,
  attempts       INTEGER NOT NULL DEFAULT 0,
  retry_at       INTEGER,
  error          TEXT,
  envelope       BLOB NOT NULL,
  due_at         INTEGER GENERATED ALWAYS AS (coalesce(retry_at, fire_at)) VIRTUAL
) STRICT;
INSERT INTO deferrals
  (id, contract, stream, source, correlation_id, envelope, created_at, fire_at, status, fired_at)
SELECT id, 'bus', 'topics/' || topic, source, correlation_id, CAST(payload AS BLOB), CAST(created_at * 1e6 AS INTEGER),
  CAST(fire_at * 1e6 AS INTEGER), status, CAST(fired_at * 1e6 AS INTEGER)
FROM deferred_events;
DROP TABLE deferred_events;
CREATE INDEX deferrals_due ON deferrals (due_at, id) WHERE status = 'scheduled';
CREATE INDEX deferrals_recurring ON deferrals (recurrence, fire_at) WHERE recurrence IS NOT NULL;
CREATE UNIQUE INDEX deferrals_named ON deferrals (source, event_id) WHERE event_id IS NOT NULL;
CREATE VIEW deferred_events AS SELECT
  id,
  CASE WHEN stream GLOB 'topics/*' THEN substr(stream, 8) ELSE stream END AS topic,
  source,
  CAST(CASE WHEN seq IS NULL THEN envelope ELSE (SELECT envelope FROM ledger WHERE seq = deferrals.seq) END AS TEXT)
    AS payload,
  correlation_id,
  fire_at / 1e6 AS fire_at,
  status,
  created_at / 1e6 AS created_at,
  fired_at / 1e6 AS fired_at
FROM deferrals;

CREATE TABLE recurrences (
  name       TEXT PRIMARY KEY,
  definition TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

# When a row was settled, so that retention finds those that were long ago; and the next run of what recurs, which is
# found without a look at the runs before it.
_SETTLED = """
ALTER TABLE deferrals ADD COLUMN settled_at INTEGER;
UPDATE deferrals SET settled_at = coalesce(fired_at, created_at) WHERE status <> 'scheduled';
CREATE INDEX deferrals_settled ON deferrals (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX deferrals_next_run ON deferrals (recurrence) WHERE status = 'scheduled' AND recurrence IS NOT NULL;
"""

# SQLite makes a table of its own for `IN (0, 1, 2)`, each time that a row is written: a quarter of what a row costs.
# The rows stay as they are, so it is the text of the schema that is changed, as SQLite's page on ALTER TABLE describes.
_RANGE_CHECKED = """
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (state IN (0, 1, 2))', 'CHECK (state BETWEEN 0 AND 2)')
WHERE type = 'table' AND name IN ('ledger', 'group_events');
PRAGMA writable_schema = RESET;
"""

MIGRATIONS: tuple[str, ...] = (
    _LEDGER + _BESIDE_THE_LEDGER + _VIEWS,
    _PARTITIONS,
    _GROUPS,
    _TRIGGERS,
    _VIEW_ROWS,
    _CONTRACTS,
    _DEFERRALS,
    _SETTLED,
    _RANGE_CHECKED,
)
"""Step n takes the schema from version n - 1 to version n. A step that was released is never edited."""

VERSION = len(MIGRATIONS)

APPLICATION_ID = 0x436F7572
"""`Cour` in SQLite's application id, so that another program's database is not mistaken for a journal."""

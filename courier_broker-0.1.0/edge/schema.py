"""The tables of `listener_outbox.db`, as numbered steps that are only ever added to.

`outbox` has the columns of document 000, and a state. Times are whole microseconds since 1970 on the timeline of
`clock.py`. `next_attempt_at` is 0 for an event that was never tried: it is due whatever the clock says, and such rows
are in the index in the order in which they were put, which is the order of their rowids.

`lanes` counts, in the same transactions, so that nobody ever has to count a million rows. `changed_at` is also the
note of the time (`clock.py`). `line` is what the sender knows of the connection, so that a reboot neither forgets nor
storms.
"""

from typing import Final

APPLICATION_ID: Final = 0x43724F62  # "CrOb"

_FIRST: Final = """
CREATE TABLE outbox (
  event_id        TEXT PRIMARY KEY NOT NULL,
  payload_json    TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL DEFAULT 0,
  attempt_count   INTEGER NOT NULL DEFAULT 0,
  last_error      TEXT,
  state           TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'rejected')),
  lane            TEXT NOT NULL,
  bytes           INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_due ON outbox (next_attempt_at);
CREATE INDEX outbox_lane ON outbox (lane);
CREATE INDEX outbox_rejected ON outbox (state) WHERE state = 'rejected';
CREATE TABLE lanes (
  lane         TEXT PRIMARY KEY NOT NULL,
  rows         INTEGER NOT NULL DEFAULT 0,
  bytes        INTEGER NOT NULL DEFAULT 0,
  rejected     INTEGER NOT NULL DEFAULT 0,
  acknowledged INTEGER NOT NULL DEFAULT 0,
  dropped      INTEGER NOT NULL DEFAULT 0,
  changed_at   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE line (
  id              INTEGER PRIMARY KEY CHECK (id = 1),
  failures        INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER NOT NULL DEFAULT 0,
  last_error      TEXT
) STRICT;
INSERT INTO line (id) VALUES (1);
"""

MIGRATIONS: Final = (_FIRST,)
VERSION: Final = len(MIGRATIONS)

"""The saved copies of views: reading them, and the job that writes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw
import orjson

from broker.journal.reader import matches
from broker.limits import VIEW_SAVE_BYTES_MAX

Row = tuple[str, int, bytes | None]
"""A key, a sequence and an envelope; None for one that retention has taken, or whose bytes are damaged."""


class Saved(NamedTuple):
    """What was saved of a view."""

    seq: int
    """What it is true for; 0 if nothing was saved."""
    rows: list[Row]


class Tail(NamedTuple):
    """What a part of the ledger comes to: the last event of each key in it."""

    last_seq: int
    """Where the part ends; where it began, if there is nothing more."""
    rows: list[Row]


_LOAD = "SELECT key, seq, envelope, payload_sha256 FROM view_rows WHERE view = ? ORDER BY seq"
_TAIL = "SELECT seq, stream, type, coalesce(length(envelope), 0) FROM ledger WHERE seq > ?1 ORDER BY seq LIMIT ?2"
_ENVELOPES = """
SELECT seq, envelope, payload_sha256 FROM ledger WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq
"""
_FORGET = "DELETE FROM view_rows WHERE view = ?1 AND key IN (SELECT value FROM json_each(?2))"

# One statement for all keys, and not one for each: see docs/ARCHITECTURE.md, "the GIL trap".
_SAVE = """
INSERT INTO view_rows (view, key, seq, payload_sha256, envelope)
SELECT ?1, given.value ->> 0, ledger.seq, ledger.payload_sha256, ledger.envelope
FROM json_each(?2) AS given JOIN ledger ON ledger.seq = given.value ->> 1
WHERE ledger.envelope IS NOT NULL
ON CONFLICT (view, key) DO UPDATE SET
  seq = excluded.seq, payload_sha256 = excluded.payload_sha256, envelope = excluded.envelope
"""
_MARK = "INSERT INTO marks (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2"


def _mark(view: str) -> str:
    return f"view.{view}.seq"


def load(connection: apsw.Connection, view: str) -> Saved:
    """What was saved of a view, in order of sequence, each envelope checked against its hash."""
    with connection:  # one snapshot: the rows must be those of the mark
        seq = connection.execute("SELECT value FROM marks WHERE name = ?", (_mark(view),)).get
        rows: list[Any] = connection.execute(_LOAD, (view,)).fetchall()
    return Saved(seq or 0, [(key, at, _whole(envelope, digest)) for key, at, envelope, digest in rows])


def tail(connection: apsw.Connection, key_of: Callable[[str, str], str | None], after_seq: int, rows_max: int) -> Tail:
    """The next part of the ledger behind a sequence: so many events, or fewer if their envelopes are large."""
    last_seq, size = after_seq, 0
    latest: dict[int, str] = {}
    places: dict[str, int] = {}
    part: list[Any] = connection.execute(_TAIL, (after_seq, rows_max)).fetchall()
    for seq, stream, kind, envelope_bytes in part:
        key = key_of(stream, kind)
        if key is not None:
            if latest and size + envelope_bytes > VIEW_SAVE_BYTES_MAX:
                break
            size += envelope_bytes
            latest.pop(places.get(key, 0), None)
            latest[seq], places[key] = key, seq
        last_seq = seq
    wanted = orjson.dumps(list(latest)).decode()
    found: list[Any] = connection.execute(_ENVELOPES, (wanted,)).fetchall()
    return Tail(last_seq, [(latest[seq], seq, _whole(envelope, digest)) for seq, envelope, digest in found])


def saver(view: str, rows: Mapping[str, int], gone: Sequence[str], up_to_seq: int) -> Callable[[apsw.Connection], None]:
    """A job that makes the copy of a view true for a sequence: keys with their events, and keys that are gone."""
    pairs = orjson.dumps(list(rows.items())).decode()
    forgotten = orjson.dumps(gone).decode()

    def save(connection: apsw.Connection) -> None:
        if gone:
            connection.execute(_FORGET, (view, forgotten))
        if rows:
            connection.execute(_SAVE, (view, pairs))
        connection.execute(_MARK, (_mark(view), up_to_seq))

    return save


def _whole(envelope: Any, digest: bytes) -> bytes | None:
    return envelope if envelope is not None and matches(envelope, digest) else None

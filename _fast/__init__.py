"""The compiled structures under the hot path. Nothing here awaits, logs or touches the network.

    dedupe    has this identity been seen, and is its first copy on disk yet?
    ring      the events of one stream that wait for a subscriber, in order
    credits   whose turn is it, among the subscribers that have room?
    leases    which deliveries are out, and which of them have run out of time?
    intake    many events in memory: claimed, made entries of, and answered with receipts
    entries   one event on its way to a consumer; many of them leased, held and let go at once
    handed    what a reader in this process was handed, and what it still holds of that
    frames    what are these deliveries, as frames?
    counters  how many came, went out, were answered and died?
    histogram how long did it take, in the middle and at the worst?
    texts     which texts did a WebSocket's client send, and which events do they acknowledge?
    heads     what does this HTTP request ask for, if it is written plainly?
    requests  which events are in this frame, if it is written plainly?
    nesting   is this JSON nested too deep, and where?
    answers   what are the acknowledgements of a submission, as frames or as answers of HTTP?
    commit    a whole batch of events into SQLite with one release of the GIL

Every number is a signed 64-bit integer; a wider one raises OverflowError, and the call changes nothing.
Import from this package, never from its modules: import-linter cannot see into a `.pyx`.
"""

from _fast import commit as _commit
from _fast.answers import ack_frames, http_answers
from _fast.build_flavour import DEBUG_BUILD
from _fast.commit import CommitError, Committer, Written
from _fast.counters import Counters
from _fast.credits import Credits
from _fast.dedupe import Dedupe
from _fast.entries import (
    MEMORY_SEQ_FIRST,
    Entry,
    any_partition,
    changes_of,
    entries_of,
    envelope_bytes,
    hold,
    lease_out,
    let_go,
    stream_runs,
    waiting_of,
)
from _fast.frames import delivery_frames
from _fast.handed import Handed, entries_handed, hand_out, let_go_handed, still_held
from _fast.heads import bytes_owed, plain_request
from _fast.histogram import Histogram
from _fast.intake import any_in_ledger, claim_events, entries_numbered, kinds_of, receipts_of
from _fast.leases import Leases
from _fast.nesting import deeper_than
from _fast.requests import RequestReader
from _fast.ring import Ring
from _fast.texts import FrameReader, ack_keys

__all__ = [
    "COMMIT_EXTENSION",
    "DEBUG_BUILD",
    "MEMORY_SEQ_FIRST",
    "CommitError",
    "Committer",
    "Counters",
    "Credits",
    "Dedupe",
    "Entry",
    "FrameReader",
    "Handed",
    "Histogram",
    "Leases",
    "RequestReader",
    "Ring",
    "Written",
    "ack_frames",
    "ack_keys",
    "any_in_ledger",
    "any_partition",
    "bytes_owed",
    "changes_of",
    "claim_events",
    "deeper_than",
    "delivery_frames",
    "entries_handed",
    "entries_numbered",
    "entries_of",
    "envelope_bytes",
    "hand_out",
    "hold",
    "http_answers",
    "kinds_of",
    "lease_out",
    "let_go",
    "let_go_handed",
    "plain_request",
    "receipts_of",
    "still_held",
    "stream_runs",
    "waiting_of",
]

COMMIT_EXTENSION: str = _commit.__file__
"""The file of the commit loop, which is also an SQLite extension with the entry `courier_commit_init`."""

"""The compiled structures under the hot path. Nothing here awaits, logs or touches the network.

    dedupe    has this identity been seen, and is its first copy on disk yet?
    ring      the events of one stream that wait for a subscriber, in order
    credits   whose turn is it, among the subscribers that have room?
    leases    which deliveries are out, and which of them have run out of time?
    entries   one event on its way to a consumer; many of them leased, held and let go at once
    frames    what are these deliveries, as frames?
    counters  how many came, went out, were answered and died?
    histogram how long did it take, in the middle and at the worst?
    requests  which events are in this frame, if it is written plainly?
    nesting   is this JSON nested too deep, and where?
    answers   what are the acknowledgements of a submission, as frames?
    commit    a whole batch of events into SQLite with one release of the GIL

Every number is a signed 64-bit integer; a wider one raises OverflowError, and the call changes nothing.
Import from this package, never from its modules: import-linter cannot see into a `.pyx`.
"""

from _fast import commit as _commit
from _fast.answers import ack_frames
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
    identities_of,
    lease_out,
    let_go,
    stream_runs,
    waiting_of,
)
from _fast.frames import delivery_frames
from _fast.histogram import Histogram
from _fast.leases import Leases
from _fast.nesting import deeper_than
from _fast.requests import RequestReader
from _fast.ring import Ring

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
    "Histogram",
    "Leases",
    "RequestReader",
    "Ring",
    "Written",
    "ack_frames",
    "any_partition",
    "changes_of",
    "deeper_than",
    "delivery_frames",
    "entries_of",
    "envelope_bytes",
    "hold",
    "identities_of",
    "lease_out",
    "let_go",
    "stream_runs",
    "waiting_of",
]

COMMIT_EXTENSION: str = _commit.__file__
"""The file of the commit loop, which is also an SQLite extension with the entry `courier_commit_init`."""

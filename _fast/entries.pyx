"""Events on their way to consumers, and what is done with many of them at once.

Delivering an event and taking its acknowledgement was half of what the loop did from end to end: each event went through some
thirty calls of Python. What is the same for all events of a commit, of a delivery or of an acknowledgement is done once by the
caller; what must be done for each is done here. Rejected: one compiled scheduler that owns streams, subscribers and leases. It would
be as fast, but the rules (partitions, patterns, groups, nacks) would be where they cannot be read.

Making an object may run the collector, and that may run somebody else's code. So lists are walked as Python walks them, by a look at
their length at each step; and what must be done as a whole or not at all is done on copies of its lists: first all that may run such
code or fail, then the change itself, which can do neither.
"""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int32_t, int64_t, uint64_t

from types import GenericAlias

from _fast.counters cimport Counters
from _fast.fields cimport CONTRACT, ENVELOPE, FIELDS, PARTITION_KEY, RECEIVED_AT, SOURCE_EVENT_ID, STREAM, part
from _fast.held cimport held_put, held_take
from _fast.histogram cimport Histogram
from _fast.leases cimport Leases
from _fast.numbers cimport natural_in, number_in

cdef extern from "Python.h":
    Py_ssize_t PyTuple_GET_SIZE(object items) noexcept

MEMORY_SEQ_FIRST = 2**52

cdef int32_t NONE = -1
cdef int64_t LEDGER_SEQ_END = 2**52
cdef int64_t ATTEMPT_MAX = 2**31 - 1
cdef int64_t NUMBER_MAX = 2**63 - 1


cdef list copy_of(list items):
    """A list of the same items. A slice makes its list when it has measured already, which may run somebody's code."""
    cdef list made = []
    made.extend(items)
    return made


@cython.final
cdef class Entry:
    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self):
        # Whatever makes an entry, and by `__new__` alone anybody can: what is read in C is of its type. It also keeps Cython
        # from making entries out of a pickle, which is not.
        self.seq = self.received_at = 0
        self.envelope = b""

    def __init__(self, stream, seq, event_id, bytes envelope not None, received_at, partition, int64_t attempt=0, origin=None):
        natural_in(seq)
        number_in(received_at)
        self.stream = stream
        self.seq = seq
        self.id = event_id
        self.envelope = envelope
        self.received_at = received_at
        self.partition = partition
        self.attempt = attempt
        self.origin = origin

    @property
    def failures(self):
        return self.attempt - self.uncounted

    @property
    def in_ledger(self):
        return self.seq < LEDGER_SEQ_END


def stream_runs(list events not None):
    cdef list runs = []
    cdef list run = []
    cdef object name = None
    for pair in events:
        stream = _event_of(pair)[STREAM]
        if stream is not name and (name is None or stream != name):
            if run:
                runs.append((name, run))
            run = []
            name = stream
        run.append(pair)
    if run:
        runs.append((name, run))
    return runs


cdef inline object _event_of(object pair):
    """The event of a pair of its sequence and itself."""
    if not isinstance(pair, tuple) or PyTuple_GET_SIZE(pair) != 2:
        raise TypeError("an event comes with its sequence")
    event = part(pair, 1)
    if not isinstance(event, tuple) or PyTuple_GET_SIZE(event) != FIELDS:
        raise TypeError(f"an event is a tuple of {FIELDS} fields")
    return event


def entries_of(stream, list events not None, str with_origin, origin_of):
    cdef list made = []
    cdef Entry entry
    for pair in events:
        event = _event_of(pair)
        natural_in(part(pair, 0))
        number_in(part(event, RECEIVED_AT))
        entry = Entry.__new__(Entry)
        entry.stream = stream
        entry.seq = part(pair, 0)
        entry.id = part(event, SOURCE_EVENT_ID)
        entry.envelope = <bytes?>part(event, ENVELOPE)
        entry.received_at = part(event, RECEIVED_AT)
        entry.partition = part(event, PARTITION_KEY)
        if part(event, CONTRACT) == with_origin:
            entry.origin = origin_of(event)
        made.append(entry)
    return made


def envelope_bytes(list entries not None):
    cdef int64_t total = 0
    for item in entries:
        total += PyBytes_GET_SIZE((<Entry?>item).envelope)
    return total


def any_partition(list entries not None):
    for item in entries:
        if (<Entry?>item).partition is not None:
            return True
    return False


cdef inline int64_t elapsed(int64_t since, int64_t until) noexcept nogil:
    """From one time to another, none if it runs backwards."""
    return 0 if until <= since else <int64_t>min(<uint64_t>until - <uint64_t>since, <uint64_t>NUMBER_MAX)


cdef dict shares_of(list entries, list holders):
    """What each holder is to have. It looks holders up in a dictionary, which is their code."""
    cdef dict shares = {}
    cdef object last = None
    cdef list share = None
    cdef Py_ssize_t place
    for place in range(PyList_GET_SIZE(entries)):
        entry = <Entry?>entries[place]
        holder = holders[place]
        if holder is None:
            raise TypeError("a holder cannot be None")
        if holder is not last:
            last = holder
            share = shares.get(last)
            if share is None:
                share = shares[last] = []
        share.append(entry)
    return shares


def lease_out(list entries not None, list holders not None, Leases leases not None, int64_t first_lease, int64_t deadline_ms, int64_t now_us, Histogram latency not None, Counters counters not None):
    cdef list given = copy_of(entries)
    cdef list takers = copy_of(holders)
    cdef list before = []
    cdef Py_ssize_t count = PyList_GET_SIZE(given)
    cdef Py_ssize_t place
    cdef object now = now_us
    cdef dict shares
    cdef Entry entry
    if PyList_GET_SIZE(takers) != count:
        raise ValueError(f"{count} entries, but {PyList_GET_SIZE(takers)} holders")
    leases._check_deadline(deadline_ms)
    if count > 0 and first_lease > NUMBER_MAX - (count - 1):
        raise OverflowError(f"the last of {count} keys from {first_lease} would be past 2**63 - 1")
    shares = shares_of(given, takers)
    leases._reserve(count)
    latency._allocate()
    # Nothing runs anybody's code from here on: what is found now is so until the end.
    if leases._spare() < count:
        raise ValueError(f"there is no room for {count} leases")
    for place in range(count):
        entry = <Entry>given[place]
        leases._check_attempt(min(entry.attempt, ATTEMPT_MAX) + 1)
        if leases._find(first_lease + place) != NONE:
            raise ValueError(f"key {first_lease + place} is leased already")
        if entry.first_attempt_at is not None:
            number_in(entry.first_attempt_at)
        if entry.holder is not None:
            before.append(entry.holder)  # so that the last reference to it does not go with its place here
    for place in range(count):
        entry = <Entry>given[place]
        entry.attempt += 1
        if entry.first_attempt_at is None:
            entry.first_attempt_at = now
        counters.delivered += 1
        if entry.attempt == 1:
            latency.record(elapsed(entry.received_at, entry.first_attempt_at))
        else:
            counters.redelivered += 1
        entry.holder = takers[place]
        entry.lease = first_lease + place
        entry.unsent = False
        held_put(leases._items, leases._take_node(entry.lease, entry.attempt, deadline_ms), entry)
    return shares


cdef int check_entries(list entries) except -1:
    for item in entries:
        <Entry?>item
    return 0


def hold(dict held not None, list entries not None):
    check_entries(entries)
    for item in entries:
        held[(<Entry?>item).seq] = item


def let_go(dict held not None, list keys not None, Leases leases not None):
    cdef list named = copy_of(keys)
    cdef list ended = []
    cdef list lost = []
    cdef Entry entry
    cdef int32_t node
    for key in named:
        if not PyLong_CheckExact(key):
            return None
    for key in named:
        item = held.pop(key, None)
        if item is None:
            lost.append(key)
            continue
        entry = <Entry?>item
        entry.holder = None
        node = leases._held_by(entry.lease, entry.attempt)
        if node != NONE:
            leases._end(node)
            held_take(leases._items, node)
        ended.append(entry)
    return ended, lost


def changes_of(list entries not None, state, at):
    cdef list made = []
    cdef Entry entry
    for item in entries:
        entry = <Entry?>item
        if <int64_t>entry.seq < LEDGER_SEQ_END:
            made.append((entry.seq, state, at, entry.attempt, None, None))
    return made


def waiting_of(list entries not None):
    cdef list made = []
    cdef Entry entry
    check_entries(entries)
    for item in entries:
        entry = <Entry?>item
        entry.unsent = True
        made.append((entry, entry.attempt))
    return made

"""Events on their way to consumers, and what is done with many of them at once.

Delivering an event and taking its acknowledgement was half of what the loop did from end to end: each event went through some
thirty calls of Python. What is the same for all events of a commit, of a delivery or of an acknowledgement is done once by the
caller; what must be done for each is done here. Rejected: one compiled scheduler that owns streams, subscribers and leases. It would
be as fast, but the rules (partitions, patterns, groups, nacks) would be where they cannot be read.

Lists are walked as Python walks them, by a look at their length at each step: making an object may run the collector, and that may
run somebody else's code.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memmove

from types import GenericAlias

from _fast.answers cimport write_number
from _fast.counters cimport Counters
from _fast.fields cimport CONTRACT, ENVELOPE, FIELDS, PARTITION_KEY, RECEIVED_AT, SOURCE_EVENT_ID, SOURCE_SYSTEM, STREAM
from _fast.held cimport held_put, held_take
from _fast.histogram cimport Histogram
from _fast.leases cimport Leases

cdef extern from "Python.h":
    PyObject* PyTuple_GET_ITEM(object items, Py_ssize_t index) noexcept
    Py_ssize_t PyTuple_GET_SIZE(object items) noexcept

MEMORY_SEQ_FIRST = 2**52

cdef enum:
    NONE = -1
    HEAD_BYTES_MAX = 10
    FRAME_MARKS_BYTES_MAX = 32  # of a frame, its head included
    MARKS_BYTES_MAX = 80        # around an envelope: names, numbers, brackets
    FIRST_BYTES = 4096

cdef int64_t LEDGER_SEQ_END = 2**52


cdef inline object part(object items, Py_ssize_t index):
    """A part of what is a tuple, and long enough."""
    return <object>PyTuple_GET_ITEM(items, index)


@cython.final
cdef class Entry:
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, stream, seq not None, event_id, bytes envelope not None, received_at, partition, int64_t attempt=0, origin=None):
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
    if not runs:
        return [(name, events)] if events else runs
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
        entry = Entry.__new__(Entry)
        entry.stream = stream
        entry.seq = part(pair, 0)
        entry.id = part(event, SOURCE_EVENT_ID)
        entry.envelope = <bytes?>part(event, ENVELOPE)
        entry.received_at = part(event, RECEIVED_AT)
        entry.partition = part(event, PARTITION_KEY)
        if <str>part(event, CONTRACT) == with_origin:
            entry.origin = origin_of(event)
        made.append(entry)
    return made


def identities_of(events not None):
    cdef list made = []
    for event in events:
        if not isinstance(event, tuple) or PyTuple_GET_SIZE(event) != FIELDS:
            raise TypeError(f"an event is a tuple of {FIELDS} fields")
        made.append(_joined(part(event, SOURCE_SYSTEM), part(event, SOURCE_EVENT_ID)))
    return made


cdef bytes _joined(str system, str event_id):
    """Both in UTF-8, with a NUL between, which neither may have."""
    cdef Py_ssize_t first
    cdef Py_ssize_t second
    cdef const char* left = PyUnicode_AsUTF8AndSize(system, &first)
    cdef const char* right = PyUnicode_AsUTF8AndSize(event_id, &second)
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, first + 1 + second)
    cdef char* at = PyBytes_AS_STRING(joined)
    memcpy(at, left, <size_t>first)
    at[first] = 0
    memcpy(at + first + 1, right, <size_t>second)
    return joined


def envelope_bytes(list entries not None):
    cdef int64_t total = 0
    cdef Entry entry
    for item in entries:
        entry = <Entry?>item
        total += PyBytes_GET_SIZE(entry.envelope)
    return total


def any_partition(list entries not None):
    cdef Entry entry
    for item in entries:
        entry = <Entry?>item
        if entry.partition is not None:
            return True
    return False


def lease_out(list entries not None, list holders not None, Leases leases not None, int64_t first_lease, int64_t deadline_ms, now_us not None, Histogram latency not None, Counters counters not None):
    cdef Py_ssize_t count = PyList_GET_SIZE(entries)
    cdef Py_ssize_t place = 0
    cdef int64_t now = now_us
    cdef dict shares = {}
    cdef object last = None
    cdef list share = None
    cdef Entry entry
    if PyList_GET_SIZE(holders) != count:
        raise ValueError(f"{count} entries, but {PyList_GET_SIZE(holders)} holders")
    leases._check_deadline(deadline_ms)
    leases._reserve(count)
    if leases._spare() < count:
        raise ValueError(f"there is no room for {count} leases")
    for item in entries:
        leases._check_attempt((<Entry?>item).attempt + 1)
        if leases._find(first_lease + place) != NONE:
            raise ValueError(f"key {first_lease + place} is leased already")
        place += 1
    place = 0
    for item in entries:
        entry = <Entry>item
        if place >= PyList_GET_SIZE(holders) or leases._spare() == 0:
            raise RuntimeError("the lists or the leases were changed meanwhile")
        entry.attempt += 1
        if entry.first_attempt_at is None:
            entry.first_attempt_at = now_us
        if entry.attempt == 1:
            latency.record(<int64_t>entry.first_attempt_at - <int64_t>entry.received_at)
            counters.delivered += 1
        else:
            counters.delivered += 1
            counters.redelivered += 1
        entry.holder = holders[place]
        entry.lease = first_lease + place
        entry.unsent = False
        held_put(leases._items, leases._take_node(entry.lease, entry.attempt, deadline_ms), entry)
        if entry.holder is not last:
            last = entry.holder
            share = shares.get(last)
            if share is None:
                share = shares[last] = []
        share.append(entry)
        place += 1
    return shares


def hold(dict held not None, list entries not None):
    cdef Entry entry
    for item in entries:
        entry = <Entry?>item
        held[entry.seq] = entry


def let_go(dict held not None, list keys not None, Leases leases not None):
    cdef list ended = []
    cdef list lost = []
    cdef Entry entry
    cdef int32_t node
    for key in keys:
        if type(key) is not int:
            return None
    for key in keys:
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
    for item in entries:
        entry = <Entry?>item
        entry.unsent = True
        made.append((entry, entry.attempt))
    return made


cdef inline unsigned char* put(unsigned char* at, const char* text, Py_ssize_t length) noexcept nogil:
    memcpy(at, text, <size_t>length)
    return at + length


cdef inline unsigned char* put_marks(unsigned char* at, Entry entry, int64_t attempt, int64_t seq) noexcept:
    """What follows an envelope."""
    at = put(at, <const char*>PyBytes_AS_STRING(entry.envelope), PyBytes_GET_SIZE(entry.envelope))
    at = put(at, b',"attempt":', 11)
    at += write_number(at, attempt)
    at = put(at, b',"seq":', 7)
    at += write_number(at, seq)
    return put(at, b'}', 1)


cdef inline Py_ssize_t head_bytes(Py_ssize_t length) noexcept nogil:
    return 2 if length <= 125 else 4 if length <= 0xFFFF else 10


cdef inline void put_head(unsigned char* at, Py_ssize_t length) noexcept nogil:
    """The head of a final frame of text that is not masked."""
    cdef int index
    at[0] = 0x81
    if length <= 125:
        at[1] = <unsigned char>length
    elif length <= 0xFFFF:
        at[1] = 126
        at[2] = <unsigned char>(length >> 8)
        at[3] = <unsigned char>(length & 0xFF)
    else:
        at[1] = 127
        for index in range(8):
            at[2 + index] = <unsigned char>((length >> (56 - 8 * index)) & 0xFF)


cdef Py_ssize_t write_frame(unsigned char* start, list deliveries, Py_ssize_t first, Py_ssize_t count, bint batched) except -1:
    """One frame with so many deliveries; how many bytes it has. It is written behind the longest head, and moved to its own."""
    cdef unsigned char* text = start + HEAD_BYTES_MAX
    cdef unsigned char* at = text
    cdef Py_ssize_t index
    cdef Py_ssize_t size
    cdef Py_ssize_t head
    cdef Entry entry
    at = put(at, b'{"deliver":', 11)
    if batched:
        at = put(at, b'[', 1)
    for index in range(first, first + count):
        entry = <Entry>part(deliveries[index], 0)
        if batched:
            if index > first:
                at = put(at, b',', 1)
            at = put(at, b'{"envelope":', 12)
        at = put_marks(at, entry, <int64_t>part(deliveries[index], 1), <int64_t>entry.seq)
    if batched:
        at = put(at, b']}', 2)
    size = at - text
    head = head_bytes(size)
    put_head(text - head, size)
    if head < HEAD_BYTES_MAX:
        memmove(start, text - head, <size_t>(size + head))
    return size + head


cdef inline Entry entry_at(list deliveries, Py_ssize_t index):
    """The entry of a delivery, a pair of it and its attempt."""
    delivery = deliveries[index]
    if not isinstance(delivery, tuple) or PyTuple_GET_SIZE(delivery) != 2:
        raise TypeError("a delivery is a pair of an entry and its attempt")
    return <Entry?>part(delivery, 0)


def delivery_frames(list deliveries not None, Py_ssize_t batch, Py_ssize_t bytes_max):
    cdef list ends = []
    cdef Py_ssize_t count = PyList_GET_SIZE(deliveries)
    cdef Py_ssize_t first = 0
    cdef Py_ssize_t last
    cdef Py_ssize_t size
    cdef Py_ssize_t written = 0
    cdef Py_ssize_t allocated = 0
    cdef unsigned char* buffer = NULL
    cdef unsigned char* larger
    cdef Entry entry
    try:
        while first < count and written < bytes_max:
            size = PyBytes_GET_SIZE(entry_at(deliveries, first).envelope)
            last = first + 1
            while last < count and last - first < batch and written + size < bytes_max:
                size += PyBytes_GET_SIZE(entry_at(deliveries, last).envelope)
                last += 1
            size += FRAME_MARKS_BYTES_MAX + (last - first) * MARKS_BYTES_MAX
            if written + size > allocated:
                allocated = max(FIRST_BYTES, 2 * allocated, written + size)
                larger = <unsigned char*>PyMem_Realloc(buffer, <size_t>allocated)
                if larger == NULL:
                    raise MemoryError(f"no memory for frames of {allocated} bytes")
                buffer = larger
            written += write_frame(buffer + written, deliveries, first, last - first, batch > 0)
            end = written
            while first < last:
                entry = entry_at(deliveries, first)
                entry.unsent = False
                ends.append(end)
                first += 1
        return PyBytes_FromStringAndSize(<const char*>buffer, written), ends
    finally:
        PyMem_Free(buffer)

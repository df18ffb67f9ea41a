"""Events of streams in memory on their way in: their identities are claimed, entries made of them, receipts written.

A producer that enqueues a thousand events in a call waited for a thousand of each of these, made one by one in Python. Nothing
is kept here: what is new and what is held is for the structures to say.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT64_MIN, int64_t
from libc.string cimport memcpy

from _fast.dedupe cimport Dedupe, Digest
from _fast.entries cimport Entry
from _fast.fields cimport CONTRACT, ENVELOPE, FIELDS, PARTITION_KEY, RECEIVED_AT, SOURCE_EVENT_ID, SOURCE_SYSTEM, STREAM, TYPE
from _fast.intake cimport CLAIMED_AT_ONCE, IDENTITY_BYTES, RECEIPT_FIELDS

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* (*tp_alloc)(PyTypeObject*, Py_ssize_t) except NULL
    PyObject* PyTuple_GET_ITEM(object items, Py_ssize_t index) noexcept
    Py_ssize_t PyTuple_GET_SIZE(object items) noexcept
    void PyObject_GC_UnTrack(object value) noexcept

cdef int64_t LEDGER_SEQ_END = 2**52


cdef inline object event_in(object event):
    """An event; raise TypeError for what is none."""
    if not isinstance(event, tuple) or PyTuple_GET_SIZE(event) != FIELDS:
        raise TypeError(f"an event is a tuple of {FIELDS} fields")
    return event


cdef inline object part(object items, Py_ssize_t index):
    """A part of what is a tuple, and long enough."""
    return <object>PyTuple_GET_ITEM(items, index)


cdef inline object number_at(list seqs, Py_ssize_t place):
    """The sequence of an event. Making an object may run somebody else's code, so each is looked for."""
    if place >= PyList_GET_SIZE(seqs):
        raise RuntimeError("the lists were changed meanwhile")
    return seqs[place]


def kinds_of(events not None):
    cdef list kinds = []
    cdef object stream = None
    cdef object kind = None
    for event in events:
        event_in(event)
        # Most are the same objects as before; else they are compared as texts.
        if part(event, STREAM) is stream and part(event, TYPE) is kind:
            continue
        if kinds and <str?>part(event, STREAM) == <str>stream and <str?>part(event, TYPE) == <str>kind:
            continue
        stream = <str?>part(event, STREAM)
        kind = <str?>part(event, TYPE)
        kinds.append((stream, kind))
    return kinds


cdef int identify(Dedupe dedupe, object event, Digest* digest) except -1:
    """The digest of the identity of an event."""
    cdef char[IDENTITY_BYTES] room
    cdef Py_ssize_t first
    cdef Py_ssize_t second
    cdef const char* left = PyUnicode_AsUTF8AndSize(<str?>part(event, SOURCE_SYSTEM), &first)
    cdef const char* right = PyUnicode_AsUTF8AndSize(<str?>part(event, SOURCE_EVENT_ID), &second)
    cdef char* at = room
    cdef bytes larger
    if first + 1 + second > IDENTITY_BYTES:
        larger = PyBytes_FromStringAndSize(NULL, first + 1 + second)
        at = PyBytes_AS_STRING(larger)
    memcpy(at, left, <size_t>first)
    at[first] = 0
    memcpy(at + first + 1, right, <size_t>second)
    digest[0] = dedupe._digest_of(at, first + 1 + second)
    return 0


cdef bint are_claimed(Dedupe dedupe, const Digest* digests, Py_ssize_t count, int64_t batch) noexcept:
    """Claim identities by their digests, until one is not new; whether all of them were."""
    cdef Py_ssize_t place
    dedupe._prefetch(digests, count)
    for place in range(count):
        if dedupe._claim(digests[place], batch) != 0:
            return False
    return True


def claim_events(events not None, Dedupe dedupe not None, int64_t batch):
    cdef Digest[CLAIMED_AT_ONCE] digests
    cdef Py_ssize_t count = 0
    if batch < 1:
        raise ValueError(f"a batch number is at least 1, not {batch}")
    try:
        for event in events:
            if count == CLAIMED_AT_ONCE:
                if not are_claimed(dedupe, digests, count, batch):
                    dedupe.abort_batch(batch)
                    return False
                count = 0
            identify(dedupe, event_in(event), &digests[count])
            count += 1
        if not are_claimed(dedupe, digests, count, batch):
            dedupe.abort_batch(batch)
            return False
    except BaseException:
        dedupe.abort_batch(batch)
        raise
    return True


def entries_numbered(stream, events not None, list seqs not None, str with_origin, origin_of):
    cdef list made = []
    cdef Py_ssize_t place = 0
    cdef Entry entry
    if len(events) != len(seqs):
        raise ValueError(f"there are {len(seqs)} sequences for {len(events)} events")
    for event in events:
        event_in(event)
        entry = Entry.__new__(Entry)
        entry.stream = stream
        entry.seq = number_at(seqs, place)
        entry.id = part(event, SOURCE_EVENT_ID)
        entry.envelope = <bytes?>part(event, ENVELOPE)
        entry.received_at = part(event, RECEIVED_AT)
        entry.partition = part(event, PARTITION_KEY)
        if <str?>part(event, CONTRACT) == with_origin:
            entry.origin = origin_of(event)
        made.append(entry)
        place += 1
    return made


def any_in_ledger(list entries not None):
    for item in entries:
        if <int64_t>(<Entry?>item).seq < LEDGER_SEQ_END:
            return True
    return False


cdef inline void fill(object receipt, Py_ssize_t index, object value) noexcept:
    """Set a field of a tuple that nobody has seen yet."""
    Py_INCREF(value)
    PyTuple_SET_ITEM(receipt, index, value)


def receipts_of(type kind not None, events not None, list seqs not None, dict duplicates not None):
    cdef list made = []
    cdef Py_ssize_t place = 0
    cdef object conflict
    cdef int64_t number
    if not issubclass(kind, tuple):
        raise TypeError("a receipt is a tuple")
    if len(events) != len(seqs):
        raise ValueError(f"there are {len(seqs)} sequences for {len(events)} events")
    for event in events:
        event_in(event)
        seq = number_at(seqs, place)
        number = seq
        if number == 0:
            return None
        conflict = False
        if number < 0:
            seq = -number
            if place in duplicates:
                conflict = bool(duplicates[place][1])
        # As the constructor of a named tuple would do it, but without a call into Python.
        receipt = <object>(<PyTypeObject*>kind).tp_alloc(<PyTypeObject*>kind, RECEIPT_FIELDS)
        Py_DECREF(receipt)  # it came as a new reference, and the cast made one more
        fill(receipt, 0, part(event, SOURCE_EVENT_ID))
        fill(receipt, 1, seq)
        fill(receipt, 2, number < 0)
        fill(receipt, 3, conflict)
        if type(part(event, SOURCE_EVENT_ID)) is str:
            PyObject_GC_UnTrack(receipt)  # a text and numbers form no cycles
        made.append(receipt)
        place += 1
    return made

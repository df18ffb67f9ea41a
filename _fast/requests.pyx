"""Requests of the Courier contract, `{"to": stream, "envelope": {…}}`, read in one walk over their bytes.

Parsing was four fifths of what the loop did for a producer that sends a hundred events a frame: each was decoded three
times (frame, request, envelope), and each of its names matched against regular expressions. Here a byte is looked at once,
and nothing is made but what the journal keeps. A name that was seen before is the same object as the last time, so its
grammar is checked once, and its text is in memory once.

It does not judge. Whatever is not plain (an escape or a letter outside ASCII in a name, a key that is there twice, a time
with an offset, and everything that is wrong) is left to the contract's own parser, which has the words for it. So there is
one place that says what is refused and why, and a property test holds the two to each other: nothing, or the same.
Rejected: msgspec's decoder on a struct with raw parts, which needs one decoding for each level and gives the fields as objects
that are to be checked one by one.

The hash is left out: the commit loop makes it, on the writer's thread and without the GIL.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

from types import GenericAlias

from _fast.fields cimport (
    CORRELATION_ID,
    ENVELOPE,
    FIELDS,
    PARTITION_KEY,
    RECEIVED_AT,
    SOURCE_EMITTED_AT,
    SOURCE_EVENT_ID,
    SOURCE_SYSTEM,
    STREAM,
    TYPE,
)
from _fast.json_walk cimport Place, skip_space
from _fast.request_walk cimport Request, Span, is_ascii, is_complete, is_utc, number, read_envelope, read_request

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* (*tp_alloc)(PyTypeObject*, Py_ssize_t) except NULL
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept
    unsigned char* PyUnicode_1BYTE_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept
    void PyObject_GC_UnTrack(object value) noexcept
    PyObject* PyTuple_GET_ITEM(object items, Py_ssize_t index) noexcept
    Py_ssize_t PyTuple_GET_SIZE(object items) noexcept
    object PyUnicode_New(Py_ssize_t length, Py_UCS4 largest)

cdef enum:
    NAMES_REMEMBERED = 512  # a power of two


cdef inline str text_of(Span span):
    """ASCII as text."""
    cdef str text = PyUnicode_New(span.length, 0x7F)
    memcpy(PyUnicode_1BYTE_DATA(text), span.at, span.length)
    return text


cdef inline void fill(object event, Py_ssize_t index, object value) noexcept:
    """Set a field of a tuple that nobody has seen yet, and that has none there."""
    Py_INCREF(value)
    PyTuple_SET_ITEM(event, index, value)


cdef inline void refill(object event, Py_ssize_t index, object value) noexcept:
    """Set a field that has what the template has there, which therefore outlives it."""
    cdef PyObject* old = PyTuple_GET_ITEM(event, index)
    fill(event, index, value)
    Py_DECREF(<object>old)


cdef str emitted_at(Span ts):
    """A time in UTC the way that Python writes it: microseconds if there are any, and the offset in full."""
    cdef Py_ssize_t digits = 0 if ts.length == 20 else ts.length - 21
    cdef Py_ssize_t length = 19 if digits == 0 or number(ts.at + 20, <int>digits) == 0 else 26
    cdef str text = PyUnicode_New(length + 6, 0x7F)
    cdef unsigned char* data = PyUnicode_1BYTE_DATA(text)
    memcpy(data, ts.at, 19)
    if length == 26:
        memcpy(data + 19, b".000000", 7)
        memcpy(data + 20, ts.at + 20, digits)
    memcpy(data + length, b"+00:00", 6)
    return text


@cython.final
cdef class Memo:
    """What a pure function gave for the names that were asked for last, by their bytes."""

    def __cinit__(self, make):
        self._make = make
        self._texts = [None] * NAMES_REMEMBERED
        self._made = [None] * NAMES_REMEMBERED

    cdef object look_up(self, Span text):
        """The name as text with what was made of it; None if that is None. Printable ASCII, not empty."""
        cdef uint64_t hash = 14695981039346656037u
        cdef Py_ssize_t place
        cdef object known
        for place in range(text.length):
            hash = (hash ^ text.at[place]) * 1099511628211u
        place = (hash ^ (hash >> 32)) & (NAMES_REMEMBERED - 1)
        known = self._texts[place]
        if known is not None and PyUnicode_GET_LENGTH(known) == text.length and memcmp(PyUnicode_1BYTE_DATA(known), text.at, text.length) == 0:
            return self._made[place]
        known = text_of(text)
        made = self._make(known)
        pair = None if made is None else (known, made)
        self._texts[place] = known
        self._made[place] = pair
        return pair


@cython.final
cdef class RequestReader:
    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self, template not None, source_of, type_of, Py_ssize_t envelope_bytes_max, Py_ssize_t requests_max, int levels):
        if not isinstance(template, tuple) or len(template) != FIELDS:
            raise ValueError(f"the template is not a tuple of {FIELDS} fields")
        if not 3 <= levels <= 64:
            raise ValueError(f"levels must be from 3 to 64, not {levels}")
        self._template = template
        self._kind = type(template)
        self._streams = Memo(source_of)
        self._types = Memo(type_of)
        self._envelope_bytes_max = envelope_bytes_max
        self._requests_max = requests_max
        self._levels = levels

    cdef object _event(self, const Request* request, object received_at, object envelope):
        """The event of a request that is complete; None when one of its names may not be one.

        Its envelope is cut out of the request, if it is not at hand as bytes.
        """
        if not is_complete(request, self._envelope_bytes_max) or not is_utc(request.ts):
            return None
        cdef tuple stream = self._streams.look_up(request.to)
        cdef tuple kind = self._types.look_up(request.type)
        cdef Py_ssize_t index
        if stream is None or kind is None:
            return None
        event_id = text_of(request.id)
        if envelope is None:
            envelope = PyBytes_FromStringAndSize(<const char*>request.envelope.at, request.envelope.length)
        emitted = emitted_at(request.ts)
        # As the constructor of a named tuple would do it, but without a call into Python.
        event = <object>(<PyTypeObject*>self._kind).tp_alloc(<PyTypeObject*>self._kind, FIELDS)
        Py_DECREF(event)  # it came as a new reference, and the cast made one more
        for index in range(FIELDS):
            fill(event, index, <object>PyTuple_GET_ITEM(self._template, index))
        refill(event, STREAM, <object>PyTuple_GET_ITEM(stream, 0))
        refill(event, SOURCE_SYSTEM, <object>PyTuple_GET_ITEM(stream, 1))
        refill(event, TYPE, <object>PyTuple_GET_ITEM(kind, 0))
        refill(event, SOURCE_EVENT_ID, event_id)
        refill(event, RECEIVED_AT, received_at)
        refill(event, ENVELOPE, envelope)
        refill(event, SOURCE_EMITTED_AT, emitted)
        if request.correlation.at != NULL:
            refill(event, CORRELATION_ID, text_of(request.correlation))
        if request.partition.at != NULL:
            refill(event, PARTITION_KEY, text_of(request.partition))
        PyObject_GC_UnTrack(event)  # texts and numbers form no cycles; looking for them took a fifth of the loop's time
        return event

    def read_one(self, bytes body not None, received_at):
        cdef Request request
        cdef Place at = <Place>PyBytes_AS_STRING(body)
        cdef Place end = at + PyBytes_GET_SIZE(body)
        if not is_valid(body, at, end):
            return None
        at = read_request(skip_space(at, end), end, self._levels - 1, &request)
        if at == NULL or skip_space(at, end) != end:
            return None
        return self._event(&request, received_at, None)

    cdef object _bare(self, object to, object raw, object received_at):
        """The event of an envelope for a stream; None for what is not plain, or is neither a name nor bytes."""
        cdef Request request
        cdef Place at, end
        if type(to) is not str or not PyUnicode_IS_COMPACT_ASCII(to) or type(raw) is not bytes:
            return None
        at = <Place>PyBytes_AS_STRING(raw)
        end = at + PyBytes_GET_SIZE(raw)
        if end - at > self._envelope_bytes_max or not is_valid(raw, at, end):
            return None
        request.to.at = PyUnicode_1BYTE_DATA(to)
        request.to.length = PyUnicode_GET_LENGTH(to)
        request.correlation.at = request.partition.at = NULL
        request.seen = 0
        at = skip_space(at, end)
        if at == end:
            return None
        at = read_envelope(at, end, self._levels - 2, &request)  # as deep as in a request
        if at == NULL or skip_space(at, end) != end:
            return None
        return self._event(&request, received_at, raw)

    def read_envelope(self, to, envelope, received_at):
        return self._bare(to, envelope, received_at)

    def read_pairs(self, list pairs not None, received_at):
        cdef list events = []
        cdef list streams = []
        cdef PyObject* last = NULL
        for pair in pairs:
            if type(pair) is not tuple or PyTuple_GET_SIZE(pair) != 2:
                return None
            event = self._bare(<object>PyTuple_GET_ITEM(pair, 0), <object>PyTuple_GET_ITEM(pair, 1), received_at)
            if event is None:
                return None
            if PyTuple_GET_ITEM(event, STREAM) != last:
                last = PyTuple_GET_ITEM(event, STREAM)
                streams.append(<object>last)
            events.append(event)
        return events, streams

    def read_frames(self, list frames not None, received_at):
        cdef list events = []
        cdef list several
        cdef bytes frame
        cdef Place at
        cdef Place end
        cdef Py_ssize_t count = 0
        while count < PyList_GET_SIZE(frames):
            frame = <bytes?>frames[count]
            at = <Place>PyBytes_AS_STRING(frame)
            end = at + PyBytes_GET_SIZE(frame)
            at = skip_space(at, end)
            if at < end and at[0] == c'[':
                several = self.read(frame, received_at)
                if several is None:
                    break
                events += several
            else:
                event = self.read_one(frame, received_at)
                if event is None:
                    break
                events.append(event)
            count += 1
        return events, count

    def read(self, bytes frame not None, received_at):
        cdef Request request
        cdef Place at = <Place>PyBytes_AS_STRING(frame)
        cdef Place end = at + PyBytes_GET_SIZE(frame)
        cdef list events
        at = skip_space(at, end)
        if at == end or at[0] != c'[':
            event = self.read_one(frame, received_at)
            return None if event is None else [event]
        if not is_valid(frame, at, end):
            return None
        events = []
        at += 1
        while True:
            at = read_request(skip_space(at, end), end, self._levels - 2, &request)
            if at == NULL or len(events) == self._requests_max:
                return None
            event = self._event(&request, received_at, None)
            if event is None:
                return None
            events.append(event)
            at = skip_space(at, end)
            if at == end or (at[0] != c',' and at[0] != c']'):
                return None
            at += 1
            if (at - 1)[0] == c']':
                return events if skip_space(at, end) == end else None


cdef bint is_valid(bytes data, Place at, Place end) except -1:
    """Whether it is UTF-8."""
    if is_ascii(at, end - at):
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

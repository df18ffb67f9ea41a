"""Deliveries as WebSocket frames, many in one piece of memory.

A frame is measured before it is written, so that it is written once, into memory that is there. Nothing runs anybody's code in between:
what is written as a number is a plain int, which was looked at when the frame was measured.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove

from _fast.answers cimport write_number
from _fast.entries cimport Entry
from _fast.fields cimport part
from _fast.numbers cimport natural_in

cdef extern from "Python.h":
    Py_ssize_t PyTuple_GET_SIZE(object items) noexcept

cdef enum:
    HEAD_BYTES_MAX = 10
    FRAME_MARKS_BYTES_MAX = 32  # of a frame, its head included
    MARKS_BYTES_MAX = 80        # around an envelope: names, numbers, brackets
    FIRST_BYTES = 4096


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


cdef Py_ssize_t envelope_at(list deliveries, Py_ssize_t index) except -1:
    """How long the envelope of a delivery is, which must be a pair of an entry and its attempt."""
    delivery = deliveries[index]
    if not isinstance(delivery, tuple) or PyTuple_GET_SIZE(delivery) != 2:
        raise TypeError("a delivery is a pair of an entry and its attempt")
    natural_in(part(delivery, 1))
    return PyBytes_GET_SIZE((<Entry?>part(delivery, 0)).envelope)


cdef int mark_sent(list deliveries, Py_ssize_t count) except -1:
    """The first of these have left. An entry that was delivered anew since may wait elsewhere, and is not what left."""
    cdef Py_ssize_t index
    cdef Entry entry
    for index in range(count):
        entry = <Entry>part(deliveries[index], 0)
        if entry.attempt == <int64_t>part(deliveries[index], 1):
            entry.unsent = False
    return 0


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
    cdef bytes frames
    if batch < 0:
        raise ValueError(f"a batch is at least 0, not {batch}")
    # Nothing in this loop runs anybody's code, so what was measured is what is written.
    try:
        while first < count and written < bytes_max:
            size = envelope_at(deliveries, first)
            last = first + 1
            while last < count and last - first < batch and written + size < bytes_max:
                size += envelope_at(deliveries, last)
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
                ends.append(end)
                first += 1
        frames = PyBytes_FromStringAndSize(<const char*>buffer, written)
        mark_sent(deliveries, first)
        return frames, ends
    finally:
        PyMem_Free(buffer)

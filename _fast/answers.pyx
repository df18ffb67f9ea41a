"""The acknowledgements of a whole submission, as the bytes of their WebSocket frames, or of their HTTP answers.

It saves a dictionary, an encoder's call and a frame's head for each event: here one takes less than 0.1 µs, and what leaves
for one producer is one object. Only the plain case is done here, as in `requests`: an id that JSON would have to escape
is left to the encoder.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memcpy

from _fast.answers cimport write_number
from _fast.fields cimport SOURCE_EVENT_ID

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept
    unsigned char* PyUnicode_1BYTE_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept

cdef enum:
    TEXT_BYTES_MAX = 96  # of an answer without its id, head included


cdef inline bint is_plain(const unsigned char* text, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(length):
        if text[index] < 0x20 or text[index] == c'"' or text[index] == c'\\':
            return False
    return True


cdef inline unsigned char* put(unsigned char* at, const char* text, Py_ssize_t length) noexcept nogil:
    memcpy(at, text, length)
    return at + length


cdef Py_ssize_t write_ack(unsigned char* start, const unsigned char* name, Py_ssize_t length, long long seq, bint conflict) noexcept nogil:
    """One frame; how many bytes it has. The text is written behind the longest head, and moved if that is shorter."""
    cdef unsigned char* text = start + 4
    cdef unsigned char* at = put(text, b'{"ack":"', 8)
    cdef Py_ssize_t size
    at = put(at, <const char*>name, length)
    at = put(at, b'","seq":', 8)
    at += write_number(at, -seq if seq < 0 else seq)
    if seq < 0:
        at = put(at, b',"duplicate":true', 17)
    else:
        at = put(at, b',"duplicate":false', 18)
    if conflict:
        at = put(at, b',"payload_conflict":true', 24)
    at = put(at, b'}', 1)
    size = at - text
    start[0] = 0x81  # a final frame of text, not masked
    if size > 125:
        start[1] = 126
        start[2] = <unsigned char>(size >> 8)
        start[3] = <unsigned char>(size & 0xFF)
        return size + 4
    start[1] = <unsigned char>size
    for length in range(size):
        start[2 + length] = text[length]
    return size + 2


def ack_frames(events not None, list seqs not None, duplicates not None):
    cdef Py_ssize_t count = len(events)
    cdef Py_ssize_t place
    cdef Py_ssize_t total = 0
    cdef unsigned char* at
    cdef long long seq
    if len(seqs) != count:
        raise ValueError(f"there are {len(seqs)} sequences for {count} events")
    cdef list names = []
    for place in range(count):
        name = events[place][SOURCE_EVENT_ID]
        if type(name) is not str or not PyUnicode_IS_COMPACT_ASCII(name) or PyUnicode_GET_LENGTH(name) > 4096:
            return None
        if seqs[place] == 0 or not is_plain(PyUnicode_1BYTE_DATA(name), PyUnicode_GET_LENGTH(name)):
            return None
        names.append(name)
        total += PyUnicode_GET_LENGTH(name) + TEXT_BYTES_MAX
    at = <unsigned char*>PyMem_Malloc(<size_t>max(1, total))
    if at == NULL:
        raise MemoryError(f"no memory for the answers to {count} events")
    try:
        total = 0
        for place in range(count):
            name = names[place]
            seq = seqs[place]
            conflict = seq < 0 and place in duplicates and duplicates[place][1]
            total += write_ack(at + total, PyUnicode_1BYTE_DATA(name), PyUnicode_GET_LENGTH(name), seq, conflict)
        return PyBytes_FromStringAndSize(<const char*>at, total)
    finally:
        PyMem_Free(at)


cdef Py_ssize_t write_reply(unsigned char* at, const unsigned char* name, Py_ssize_t length, long long seq, bint conflict) noexcept nogil:
    """The body of an answer; how many bytes it has."""
    cdef unsigned char* start = at
    at = put(at, b'{"id":"', 7)
    at = put(at, <const char*>name, length)
    at = put(at, b'","seq":', 8)
    at += write_number(at, -seq if seq < 0 else seq)
    if seq < 0:
        at = put(at, b',"duplicate":true', 17)
    else:
        at = put(at, b',"duplicate":false', 18)
    if conflict:
        at = put(at, b',"payload_conflict":true', 24)
    at = put(at, b'}', 1)
    return at - start


def http_answers(events not None, list seqs not None, duplicates not None, bytes before not None, bytes behind not None):
    cdef Py_ssize_t count = len(events)
    cdef Py_ssize_t place, length, size
    cdef long long seq
    cdef unsigned char reply[4096 + TEXT_BYTES_MAX]
    cdef unsigned char* at
    if len(seqs) != count:
        raise ValueError(f"there are {len(seqs)} sequences for {count} events")
    cdef list answers = []
    for place in range(count):
        name = events[place][SOURCE_EVENT_ID]
        seq = seqs[place]
        if seq == 0 or type(name) is not str or not PyUnicode_IS_COMPACT_ASCII(name) or PyUnicode_GET_LENGTH(name) > 4096:
            answers.append(None)
            continue
        length = PyUnicode_GET_LENGTH(name)
        if not is_plain(PyUnicode_1BYTE_DATA(name), length):
            answers.append(None)
            continue
        conflict = seq < 0 and place in duplicates and duplicates[place][1]
        size = write_reply(reply, PyUnicode_1BYTE_DATA(name), length, seq, conflict)
        length = len(before) + count_digits(size) + len(behind)
        answer = PyBytes_FromStringAndSize(NULL, length + size)
        at = <unsigned char*>PyBytes_AS_STRING(answer)
        at = put(at, PyBytes_AS_STRING(before), len(before))
        at += write_number(at, size)
        at = put(at, PyBytes_AS_STRING(behind), len(behind))
        put(at, <const char*>reply, size)
        answers.append(answer)
    return answers


cdef inline Py_ssize_t count_digits(Py_ssize_t number) noexcept nogil:
    cdef Py_ssize_t count = 1
    while number >= 10:
        number //= 10
        count += 1
    return count

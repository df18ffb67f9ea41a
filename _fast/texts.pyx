"""The frames of a WebSocket's client (RFC 6455 §5.2), taken out of the bytes as they come.

A producer that sends an event a frame fills a read with hundreds of them. Through a reader that makes a message of each, a
queue, and a task that wakes up for it, a frame cost five times what is done with its event. Here a read is walked over once,
and its texts are one list.

It does not judge. What is not a final, masked text of bounded length, or a ping or pong beside it (a fragment, a close, binary
data, a reserved bit), is left to aiohttp's reader, with all that follows: that one knows what is to be refused, and how. So it
has to be told of whole frames only, and there is no state that two readers share.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    TEXT = 0x81           # final, no reserved bit
    PING = 0x89
    PONG = 0x8A
    MASKED = 0x80
    HEAD_BYTES_MIN = 2
    MASK_BYTES = 4
    CONTROL_BYTES_MAX = 125
    DIGITS_MAX = 18       # a number of so many digits is a signed 64-bit integer
    PARTS_MAX = 8192      # an object for every two bytes of a frame would be many times its size


cdef inline bytes unmasked(const unsigned char* mask, const unsigned char* data, Py_ssize_t length):
    """The text under its mask, eight bytes at a time."""
    cdef bytes text = PyBytes_FromStringAndSize(NULL, length)
    cdef unsigned char* to = <unsigned char*>PyBytes_AS_STRING(text)
    cdef unsigned char twice[8]
    cdef uint64_t key
    cdef uint64_t word
    cdef Py_ssize_t at = 0
    memcpy(twice, mask, 4)
    memcpy(twice + 4, mask, 4)
    memcpy(&key, twice, 8)
    while at + 8 <= length:
        memcpy(&word, data + at, 8)
        word ^= key
        memcpy(to + at, &word, 8)
        at += 8
    while at < length:
        to[at] = data[at] ^ mask[at & 3]
        at += 1
    return text


@cython.final
cdef class FrameReader:
    def __cinit__(self, Py_ssize_t text_bytes_max):
        if text_bytes_max < 1:
            raise ValueError(f"text_bytes_max must be at least 1, not {text_bytes_max}")
        self._text_bytes_max = text_bytes_max
        self._parts = []
        self.is_plain = True

    def take(self, bytes chunk not None):
        cdef list texts = []
        cdef list others = []
        cdef Py_ssize_t length
        cdef Py_ssize_t done
        if not self.is_plain:
            raise RuntimeError("what came was not plain; the other reader has the rest")
        if self._parts:
            self._parts.append(chunk)
            self.held_bytes += PyBytes_GET_SIZE(chunk)
            if self.held_bytes < self._needed_bytes:
                if PyList_GET_SIZE(self._parts) == PARTS_MAX:
                    self._parts = [b"".join(self._parts)]
                return texts, b""
            chunk = b"".join(self._parts)
            self._parts = []
            self.held_bytes = 0
        length = PyBytes_GET_SIZE(chunk)
        done = self._read(<const unsigned char*>PyBytes_AS_STRING(chunk), length, texts, others)
        if not self.is_plain:
            others.append(chunk[done:])
        elif done < length:
            self._parts.append(chunk[done:])
            self.held_bytes = length - done
        return texts, b"".join(others)

    cdef Py_ssize_t _read(self, const unsigned char* start, Py_ssize_t length, list texts, list others) except -1:
        """Walk over whole frames; how far that went. What is behind is not plain, or not there in full."""
        cdef Py_ssize_t done = 0
        cdef Py_ssize_t left
        cdef Py_ssize_t head
        cdef Py_ssize_t size
        cdef uint64_t long_size
        cdef int index
        cdef const unsigned char* at
        while True:
            at = start + done
            left = length - done
            self._needed_bytes = HEAD_BYTES_MIN
            if left < HEAD_BYTES_MIN:
                return done
            if at[0] == PING or at[0] == PONG:
                size = at[1] & 0x7F
                head = HEAD_BYTES_MIN + (MASK_BYTES if at[1] & MASKED else 0)
                if size > CONTROL_BYTES_MAX:
                    self.is_plain = False
                    return done
                self._needed_bytes = head + size
                if left < head + size:
                    return done
                others.append(PyBytes_FromStringAndSize(<const char*>at, head + size))
                done += head + size
                continue
            if at[0] != TEXT or not at[1] & MASKED:
                self.is_plain = False
                return done
            size = at[1] & 0x7F
            head = HEAD_BYTES_MIN + (0 if size < 126 else 2 if size == 126 else 8)
            self._needed_bytes = head
            if left < head:
                return done
            if size == 126:
                size = at[2] << 8 | at[3]
            elif size == 127:
                long_size = 0
                for index in range(8):
                    long_size = long_size << 8 | at[2 + index]
                if long_size > <uint64_t>self._text_bytes_max:
                    self.is_plain = False
                    return done
                size = <Py_ssize_t>long_size
            if size > self._text_bytes_max:
                self.is_plain = False
                return done
            head += MASK_BYTES
            self._needed_bytes = head + size
            if left < head + size:
                return done
            texts.append(unmasked(at + head - MASK_BYTES, at + head, size))
            done += head + size


cdef inline const unsigned char* read_seq(const unsigned char* at, const unsigned char* end, int64_t* seq) noexcept nogil:
    """A whole number from 1 on without a sign, a fraction or a leading zero; NULL for anything else."""
    cdef const unsigned char* start = at
    cdef int64_t value = 0
    if at == end or not c'1' <= at[0] <= c'9':
        return NULL
    while at < end and c'0' <= at[0] <= c'9':
        if at - start == DIGITS_MAX:
            return NULL
        value = value * 10 + (at[0] - c'0')
        at += 1
    seq[0] = value
    return at


cdef inline const unsigned char* skip_blanks(const unsigned char* at, const unsigned char* end) noexcept nogil:
    while at < end and (at[0] == c' ' or at[0] == c'\t' or at[0] == c'\n' or at[0] == c'\r'):
        at += 1
    return at


cdef inline const unsigned char* expect(const unsigned char* at, const unsigned char* end, unsigned char mark) noexcept nogil:
    """What is behind a mark and the blanks around it; NULL if it is not there."""
    if at == NULL:
        return NULL
    at = skip_blanks(at, end)
    if at == end or at[0] != mark:
        return NULL
    return skip_blanks(at + 1, end)


cdef bint read_acks(bytes text, list keys, Py_ssize_t keys_max) except -1:
    """Add what a text acknowledges; False, with nothing added, for one that is not plainly that, or too much."""
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(text)
    cdef const unsigned char* end = at + PyBytes_GET_SIZE(text)
    cdef list found
    cdef int64_t seq = 0
    keys_max -= PyList_GET_SIZE(keys)
    at = expect(at, end, c'{')
    if at == NULL or end - at < 5 or not (at[0] == c'"' and at[1] == c'a' and at[2] == c'c' and at[3] == c'k' and at[4] == c'"'):
        return False
    at = expect(at + 5, end, c':')
    if at == NULL or at == end:
        return False
    if at[0] != c'[':
        at = expect(read_seq(at, end, &seq), end, c'}')
        if at != end or keys_max < 1:
            return False
        keys.append(seq)
        return True
    found = []
    at = skip_blanks(at + 1, end)
    while True:
        at = read_seq(at, end, &seq)
        if at == NULL or PyList_GET_SIZE(found) >= keys_max:
            return False
        found.append(seq)
        at = skip_blanks(at, end)
        if at == end:
            return False
        if at[0] == c']':
            break
        at = expect(at, end, c',')
        if at == NULL:
            return False
    if expect(at + 1, end, c'}') != end:
        return False
    keys += found
    return True


def ack_keys(list texts not None, Py_ssize_t first, Py_ssize_t keys_max):
    cdef list keys = []
    if first < 0:
        raise ValueError(f"first must be at least 0, not {first}")
    while first < PyList_GET_SIZE(texts) and read_acks(<bytes?>texts[first], keys, keys_max):
        first += 1
    return keys, first

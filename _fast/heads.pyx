"""The heads of HTTP requests that are written plainly, read in one walk over their bytes.

A parser of HTTP makes objects of everything that a request says: a message, its headers twice, a URL. A producer of events says
the same each time, and the broker asks for four things of it. Here nothing is made but those.

As in `requests`, nothing is judged here: whatever is not plain is left to the HTTP server, which has the words for it. Plain is
less than the grammar of RFC 9110 allows, so that no two readers can part over it: lines end with CR LF and nothing else, names
are tokens, values are printable ASCII, no name is there twice, and the only frame of a body is one length in digits.
A property test holds it to a model of regular expressions, and the front's tests to the answers of the server itself.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy

from _fast.json_walk cimport Place
from _fast.request_walk cimport Span

cdef extern from "Python.h":
    unsigned char* PyUnicode_1BYTE_DATA(object text) noexcept
    object PyUnicode_New(Py_ssize_t length, Py_UCS4 largest)

cdef enum:
    HEAD_BYTES_MAX = 4096
    HEADERS_MAX = 32

cdef enum:  # headers that came
    SEEN_HOST = 1
    SEEN_KIND = 2
    SEEN_LENGTH = 4
    SEEN_PACKED = 8      # how the body is packed: another frame, another coding
    SEEN_AWAITED = 16    # the client waits to be asked for the body
    SEEN_ORIGIN = 32     # a page of the web asks
    SEEN_SWITCH = 64     # another protocol, or the end of the connection

cdef struct Head:
    Py_ssize_t size      # with the empty line
    Py_ssize_t length    # of the body
    unsigned int seen
    Span host
    Span kind
    Span authorization
    Span key


cdef inline unsigned char lower(unsigned char byte) noexcept nogil:
    return byte | 0x20 if c'A' <= byte <= c'Z' else byte


cdef inline bint is_text(Span span, const char* text, Py_ssize_t length) noexcept nogil:
    """Whether it is this text, which is in small letters, but for capitals."""
    cdef Py_ssize_t index
    if span.length != length:
        return False
    for index in range(length):
        if lower(span.at[index]) != <unsigned char>text[index]:
            return False
    return True


cdef inline bint is_same_name(Span one, Span other) noexcept nogil:
    cdef Py_ssize_t index
    if one.length != other.length:
        return False
    for index in range(one.length):
        if lower(one.at[index]) != lower(other.at[index]):
            return False
    return True


cdef inline bint is_letter_of_token(unsigned char byte) noexcept nogil:
    if c'a' <= (byte | 0x20) <= c'z' or c'0' <= byte <= c'9':
        return True
    return byte < 0x7F and byte > 0x20 and memchr(b"!#$%&'*+-.^_`|~", byte, 15) != NULL


cdef inline Py_ssize_t read_length(Span value) noexcept nogil:
    """A length in up to ten digits, without one too many in front; -1 for anything else."""
    cdef Py_ssize_t number = 0
    cdef Py_ssize_t index
    if not 1 <= value.length <= 10 or (value.length > 1 and value.at[0] == c'0'):
        return -1
    for index in range(value.length):
        if not c'0' <= value.at[index] <= c'9':
            return -1
        number = number * 10 + (value.at[index] - c'0')
    return number


cdef inline bint note(Span name, Span value, Head* head) noexcept nogil:
    """Keep what a header says; False if it says something that is not plain."""
    if is_text(name, b"host", 4):
        head.seen |= SEEN_HOST
        head.host = value
    elif is_text(name, b"content-length", 14):
        head.seen |= SEEN_LENGTH
        head.length = read_length(value)
        return head.length >= 0
    elif is_text(name, b"content-type", 12):
        head.seen |= SEEN_KIND
        head.kind = value
    elif is_text(name, b"authorization", 13):
        head.authorization = value
    elif is_text(name, b"connection", 10) or is_text(name, b"proxy-connection", 16):
        if not is_text(value, b"keep-alive", 10):
            head.seen |= SEEN_SWITCH
    elif is_text(name, b"transfer-encoding", 17) or is_text(name, b"upgrade", 7) or is_text(name, b"trailer", 7):
        head.seen |= SEEN_SWITCH
    elif name.length >= 13 and is_text(Span(name.at, 13), b"sec-websocket", 13):
        head.seen |= SEEN_SWITCH
    elif is_text(name, b"content-encoding", 16):
        head.seen |= SEEN_PACKED
    elif is_text(name, b"expect", 6):
        head.seen |= SEEN_AWAITED
    elif is_text(name, b"origin", 6):
        head.seen |= SEEN_ORIGIN
    return True


cdef bint read_headers(Place start, Place at, Place end, Span key, Head* head) noexcept nogil:
    """The lines behind the first one, up to the empty one; False if they are not whole or not plain."""
    cdef Span names[HEADERS_MAX]
    cdef Span name
    cdef Span value
    cdef int count = 0
    cdef int index
    head.seen = 0
    head.length = 0
    head.host.at = head.kind.at = head.authorization.at = head.key.at = NULL
    if end - start > HEAD_BYTES_MAX:
        end = start + HEAD_BYTES_MAX
    while True:
        if end - at < 2:
            return False
        if at[0] == c'\r':
            head.size = at + 2 - start
            return at[1] == c'\n'
        name.at = at
        while at < end and is_letter_of_token(at[0]):
            at += 1
        name.length = at - name.at
        if at == end or at[0] != c':' or name.length == 0 or count == HEADERS_MAX:
            return False
        for index in range(count):
            if is_same_name(names[index], name):
                return False
        names[count] = name
        count += 1
        at += 1
        while at < end and at[0] == c' ':
            at += 1
        value.at = at
        while at < end and 0x20 <= at[0] < 0x7F:
            at += 1
        if end - at < 2 or at[0] != c'\r' or at[1] != c'\n':
            return False
        value.length = at - value.at
        while value.length and value.at[value.length - 1] == c' ':
            value.length -= 1
        at += 2
        if not note(name, value, head):
            return False
        if key.length and is_same_name(key, name):
            head.key = value


cdef Place read_any_line(Place at, Place end) noexcept nogil:
    """The first line of a request of one of the usual methods; NULL for any other."""
    cdef Py_ssize_t size = end - at
    if size > HEAD_BYTES_MAX:
        end = at + HEAD_BYTES_MAX
    if size >= 5 and (memcmp(at, b"GET /", 5) == 0 or memcmp(at, b"PUT /", 5) == 0):
        at += 4
    elif size >= 6 and memcmp(at, b"POST /", 6) == 0:
        at += 5
    elif size >= 8 and memcmp(at, b"DELETE /", 8) == 0:
        at += 7
    else:
        return NULL
    while at < end and 0x20 < at[0] < 0x7F:
        at += 1
    if end - at < 11 or memcmp(at, b" HTTP/1.1\r\n", 11) != 0:
        return NULL
    return at + 11


cdef inline object text_of(Span span):
    """Printable ASCII as text; None for what was not there."""
    if span.at == NULL:
        return None
    text = PyUnicode_New(span.length, 0x7F) if span.length else ""
    memcpy(PyUnicode_1BYTE_DATA(text), span.at, span.length)
    return text


cdef inline bint is_json(Span kind) noexcept nogil:
    if is_text(kind, b"application/json", 16):
        return True
    return is_text(kind, b"application/json; charset=utf-8", 31) or is_text(kind, b"application/json;charset=utf-8", 30)


def bytes_owed(bytes data not None, Py_ssize_t owed):
    cdef Head head
    cdef Place at = <Place>PyBytes_AS_STRING(data)
    cdef Place end = at + PyBytes_GET_SIZE(data)
    cdef Place headers
    while owed >= 0:
        if owed >= end - at:
            return owed - (end - at)
        at += owed
        headers = read_any_line(at, end)
        if headers == NULL or not read_headers(at, headers, end, Span(NULL, 0), &head):
            break
        if head.seen & SEEN_SWITCH or not head.seen & SEEN_HOST:
            break
        owed = head.size + head.length
    return -1


def plain_request(bytes data not None, bytes line not None, bytes key not None, Py_ssize_t body_bytes_max):
    cdef Head head
    cdef Place start = <Place>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t line_size = PyBytes_GET_SIZE(line)
    cdef Span key_name = Span(<Place>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
    if size < line_size or memcmp(start, PyBytes_AS_STRING(line), <size_t>line_size) != 0:
        return None
    if not read_headers(start, start + line_size, start + size, key_name, &head):
        return None
    if head.seen != (SEEN_HOST | SEEN_LENGTH | SEEN_KIND) or not is_json(head.kind):
        return None
    if head.length > body_bytes_max or head.size + head.length != size:
        return None
    body = PyBytes_FromStringAndSize(<const char*>start + head.size, head.length)
    return body, text_of(head.host), text_of(head.authorization), text_of(head.key)

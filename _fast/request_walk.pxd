# A request of the Courier contract, walked over: where its fields are. Nothing is made of it; `requests` does that.
from libc.string cimport memcmp

from _fast.json_walk cimport Place, skip_integer, skip_space, skip_string, skip_value

cdef struct Span:
    Place at            # NULL when it was not there
    Py_ssize_t length

cdef struct Request:
    Span to
    Span envelope       # from its first bracket to its last
    Span id
    Span ts
    Span inner_to
    Span type
    Span correlation
    Span partition
    unsigned int seen   # a bit for each field that came, those included that are only looked at

cdef enum:
    NAME_BYTES_MAX = 255

cdef enum:  # fields of an envelope that came, or of the request around it
    SEEN_ID = 1
    SEEN_TS = 2
    SEEN_TO = 4
    SEEN_TYPE = 8
    SEEN_PAYLOAD = 16
    SEEN_FROM = 32
    SEEN_SCHEMA = 64
    SEEN_VERSION = 128
    SEEN_CORRELATION = 256
    SEEN_REFS = 512
    SEEN_TAGS = 1024
    SEEN_HEADERS = 2048
    SEEN_PARTITION = 4096
    NEEDED = SEEN_ID | SEEN_TS | SEEN_TO | SEEN_TYPE | SEEN_PAYLOAD

cdef inline bint is_key(Span key, const char* name, Py_ssize_t length) noexcept nogil:
    return key.length == length and memcmp(key.at, name, length) == 0

cdef inline Place read_string(Place at, Place end, Span* span) noexcept nogil:
    """A string without escapes, and where its text is."""
    cdef Place start = at + 1
    if at == end or at[0] != c'"':
        return NULL
    at = skip_string(start, end, True)
    if at == NULL:
        return NULL
    span.at = start
    span.length = at - 1 - start
    return at

cdef inline bint is_ascii(Place at, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t index
    cdef unsigned char bits = 0
    for index in range(length):
        bits |= at[index]
    return bits < 0x80

cdef inline bint is_printable(Span text) noexcept nogil:
    """Whether it is ASCII without control characters; those below a space cannot be in a string of JSON."""
    cdef Py_ssize_t index
    for index in range(text.length):
        if text.at[index] >= 0x7F:
            return False
    return True

cdef inline bint is_name(Span text) noexcept nogil:
    return 0 < text.length <= NAME_BYTES_MAX and is_printable(text)

cdef inline Place skip_strings(Place at, Place end) noexcept nogil:
    """An array of strings."""
    cdef Span ignored
    if at == end or at[0] != c'[':
        return NULL
    at = skip_space(at + 1, end)
    if at < end and at[0] == c']':
        return at + 1
    while True:
        at = read_string(skip_space(at, end), end, &ignored)
        if at == NULL:
            return NULL
        at = skip_space(at, end)
        if at == end or (at[0] != c',' and at[0] != c']'):
            return NULL
        at += 1
        if (at - 1)[0] == c']':
            return at

cdef inline Place read_key(Place at, Place end, Span* key) noexcept nogil:
    """A key with its colon, and the space behind."""
    at = read_string(skip_space(at, end), end, key)
    if at == NULL:
        return NULL
    at = skip_space(at, end)
    if at == end or at[0] != c':':
        return NULL
    at = skip_space(at + 1, end)
    if at == end:
        return NULL
    return at

cdef inline Place read_next(Place at, Place end, bint* ended) noexcept nogil:
    """What stands behind a member of an object: a comma, or the bracket that ends it."""
    at = skip_space(at, end)
    if at == end or (at[0] != c',' and at[0] != c'}'):
        return NULL
    ended[0] = at[0] == c'}'
    return at + 1

cdef inline Place read_field(Place at, Place end, Span key, int levels, Request* request) noexcept nogil:
    """The value of one key of an envelope."""
    cdef unsigned int field = 0
    cdef Span ignored
    if is_key(key, "id", 2):
        field = SEEN_ID
        at = read_string(at, end, &request.id)
    elif is_key(key, "ts", 2):
        field = SEEN_TS
        at = read_string(at, end, &request.ts)
    elif is_key(key, "to", 2):
        field = SEEN_TO
        at = read_string(at, end, &request.inner_to)
    elif is_key(key, "type", 4):
        field = SEEN_TYPE
        at = read_string(at, end, &request.type)
    elif is_key(key, "payload", 7):
        field = SEEN_PAYLOAD
        at = skip_value(at, end, levels, False)
    elif is_key(key, "from", 4):
        field = SEEN_FROM
        at = read_string(at, end, &ignored)
    elif is_key(key, "schema", 6):
        field = SEEN_SCHEMA
        at = read_string(at, end, &ignored)
    elif is_key(key, "version", 7):
        field = SEEN_VERSION
        at = skip_integer(at, end)
    elif is_key(key, "corr", 4):
        field = SEEN_CORRELATION
        at = read_string(at, end, &request.correlation)
    elif is_key(key, "refs", 4):
        field = SEEN_REFS
        at = skip_strings(at, end)
    elif is_key(key, "tags", 4):
        field = SEEN_TAGS
        at = skip_strings(at, end)
    elif is_key(key, "headers", 7):
        field = SEEN_HEADERS
        if at[0] != c'{':
            return NULL
        at = skip_value(at, end, levels, True)
    elif is_key(key, "partitionKey", 12):
        field = SEEN_PARTITION
        at = read_string(at, end, &request.partition)
    else:
        at = skip_value(at, end, levels, False)
    if request.seen & field:
        return NULL  # which of two values counts is for the parser to say
    request.seen |= field
    return at

cdef inline Place read_envelope(Place at, Place end, int levels, Request* request) noexcept nogil:
    """An envelope, whose inside may have so many levels."""
    cdef Place start = at
    cdef Span key
    cdef bint ended = False
    if at[0] != c'{':
        return NULL
    at += 1
    while not ended:
        at = read_key(at, end, &key)
        if at == NULL:
            return NULL
        at = read_field(at, end, key, levels, request)
        if at == NULL:
            return NULL
        at = read_next(at, end, &ended)
        if at == NULL:
            return NULL
    request.envelope.at = start
    request.envelope.length = at - start
    return at

cdef inline Place read_request(Place at, Place end, int levels, Request* request) noexcept nogil:
    """A request, whose inside may have so many levels."""
    cdef Span key
    cdef bint ended = False
    if at == end or at[0] != c'{' or levels < 1:
        return NULL
    at += 1
    request.to.at = request.envelope.at = request.correlation.at = request.partition.at = NULL
    request.seen = 0
    while not ended:
        at = read_key(at, end, &key)
        if at == NULL:
            return NULL
        if is_key(key, "to", 2):
            if request.to.at != NULL:
                return NULL
            at = read_string(at, end, &request.to)
        elif is_key(key, "envelope", 8):
            if request.envelope.at != NULL:
                return NULL
            at = read_envelope(at, end, levels - 1, request)
        else:
            at = skip_value(at, end, levels, False)
        if at == NULL:
            return NULL
        at = read_next(at, end, &ended)
        if at == NULL:
            return NULL
    return at

cdef inline bint is_complete(const Request* request, Py_ssize_t envelope_bytes_max) noexcept nogil:
    """Whether all is there, and is what it may be, but for the grammar of the names."""
    if request.to.at == NULL or request.envelope.at == NULL or (request.seen & NEEDED) != NEEDED:
        return False
    if request.envelope.length > envelope_bytes_max or request.to.length != request.inner_to.length:
        return False
    if memcmp(request.to.at, request.inner_to.at, request.to.length) != 0:
        return False
    if not (is_name(request.to) and is_name(request.id) and is_name(request.type)):
        return False
    if request.partition.at != NULL and not is_name(request.partition):
        return False
    return request.correlation.at == NULL or is_printable(request.correlation)

cdef inline int number(Place at, int digits) noexcept nogil:
    """So many digits; -1 when they are none."""
    cdef int value = 0
    cdef int index
    for index in range(digits):
        if not c'0' <= at[index] <= c'9':
            return -1
        value = value * 10 + (at[index] - c'0')
    return value

cdef inline int days_of(int year, int month) noexcept nogil:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31

cdef inline bint is_utc(Span ts) noexcept nogil:
    """Whether it is `YYYY-MM-DDTHH:MM:SSZ`, with a fraction of up to six digits or without."""
    cdef Place at = ts.at
    cdef int year, month, day
    if ts.length < 20 or ts.length > 27 or ts.length == 21 or at[ts.length - 1] != c'Z':
        return False
    if at[4] != c'-' or at[7] != c'-' or at[10] != c'T' or at[13] != c':' or at[16] != c':':
        return False
    year, month, day = number(at, 4), number(at + 5, 2), number(at + 8, 2)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= days_of(year, month):
        return False
    if not (0 <= number(at + 11, 2) <= 23 and 0 <= number(at + 14, 2) <= 59 and 0 <= number(at + 17, 2) <= 59):
        return False
    return ts.length == 20 or (at[19] == c'.' and number(at + 20, <int>ts.length - 21) >= 0)

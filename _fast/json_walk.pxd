# JSON, walked over without making anything of it. A function gets the place to start at and the end of the bytes, and
# answers with the place behind what it has walked over; NULL for anything that is not the strict grammar of RFC 8259.
# With `plain` it is also NULL for what a decoder would have to look at twice: an escape, or a number that is long or has
# an exponent. The bytes are valid UTF-8 already.
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

ctypedef const unsigned char* Place

cdef inline Place skip_space(Place at, Place end) noexcept nogil:
    while at < end and (at[0] == c' ' or at[0] == c'\n' or at[0] == c'\r' or at[0] == c'\t'):
        at += 1
    return at

cdef inline uint64_t stops_in(uint64_t word) noexcept nogil:
    """A bit for each of eight bytes that is a quote, a backslash or below a space; a borrow may add later ones."""
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t quote = word ^ (ones * c'"')
    cdef uint64_t backslash = word ^ (ones * c'\\')
    return (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | ((word - ones * 0x20) & ~word)) & (ones << 7)

cdef inline bint is_hex(unsigned char byte) noexcept nogil:
    return c'0' <= byte <= c'9' or c'a' <= (byte | 0x20) <= c'f'

cdef inline Place skip_escape(Place at, Place end) noexcept nogil:
    """Behind a backslash. Surrogates are left to a decoder, which knows what pairs they may form."""
    if at == end:
        return NULL
    if at[0] == c'u':
        if end - at < 5 or not (is_hex(at[1]) and is_hex(at[2]) and is_hex(at[3]) and is_hex(at[4])):
            return NULL
        if (at[1] | 0x20) == c'd' and at[2] >= c'8':
            return NULL
        return at + 5
    if at[0] == c'"' or at[0] == c'\\' or at[0] == c'/' or at[0] == c'b' or at[0] == c'f' or at[0] == c'n' or at[0] == c'r' or at[0] == c't':
        return at + 1
    return NULL

cdef inline Place skip_string(Place at, Place end, bint plain) noexcept nogil:
    """Behind the quote that opens it."""
    cdef uint64_t word
    while True:
        while end - at >= 8:
            memcpy(&word, at, 8)
            if stops_in(word):
                break
            at += 8
        while at < end and at[0] != c'"' and at[0] != c'\\' and at[0] >= 0x20:
            at += 1
        if at == end or at[0] < 0x20:
            return NULL
        if at[0] == c'"':
            return at + 1
        if plain:
            return NULL
        at = skip_escape(at + 1, end)
        if at == NULL:
            return NULL

cdef inline Place skip_digits(Place at, Place end) noexcept nogil:
    """One digit or more."""
    if at == end or not c'0' <= at[0] <= c'9':
        return NULL
    while at < end and c'0' <= at[0] <= c'9':
        at += 1
    return at

cdef inline Place skip_number(Place at, Place end, bint plain) noexcept nogil:
    cdef Place start = at
    if at < end and at[0] == c'-':
        at += 1
    if at < end and at[0] == c'0':
        at += 1
    else:
        at = skip_digits(at, end)
    if at != NULL and at < end and at[0] == c'.':
        at = skip_digits(at + 1, end)
    if at != NULL and at < end and (at[0] | 0x20) == c'e':
        if plain:
            return NULL
        at += 1
        if at < end and (at[0] == c'+' or at[0] == c'-'):
            at += 1
        at = skip_digits(at, end)
    if plain and at != NULL and at - start > 15:
        return NULL
    return at

cdef inline Place skip_integer(Place at, Place end) noexcept nogil:
    """A plain number without a fraction."""
    cdef Place start = at
    at = skip_number(at, end, True)
    if at == NULL:
        return NULL
    while start < at:
        if start[0] == c'.':
            return NULL
        start += 1
    return at

cdef inline Place skip_word(Place at, Place end, const char* word, Py_ssize_t length) noexcept nogil:
    if end - at < length or memcmp(at, word, length) != 0:
        return NULL
    return at + length

cdef inline Place skip_key(Place at, Place end, bint plain) noexcept nogil:
    """A key, its colon, and the space around them."""
    at = skip_space(at, end)
    if at == end or at[0] != c'"':
        return NULL
    at = skip_string(at + 1, end, plain)
    if at == NULL:
        return NULL
    at = skip_space(at, end)
    if at == end or at[0] != c':':
        return NULL
    return at + 1

cdef inline Place skip_scalar(Place at, Place end, bint plain) noexcept nogil:
    if at[0] == c'"':
        return skip_string(at + 1, end, plain)
    if at[0] == c't':
        return skip_word(at, end, "true", 4)
    if at[0] == c'f':
        return skip_word(at, end, "false", 5)
    if at[0] == c'n':
        return skip_word(at, end, "null", 4)
    return skip_number(at, end, plain)

cdef inline Place skip_value(Place at, Place end, int levels, bint plain) noexcept nogil:
    """Any value with at most so many levels (64 or less) of arrays and objects."""
    cdef uint64_t objects = 0  # for each open level, the innermost last, whether it is an object
    cdef int depth = 0
    cdef unsigned char closing
    while True:
        at = skip_space(at, end)
        if at == end:
            return NULL
        if at[0] == c'{' or at[0] == c'[':
            if depth == levels:
                return NULL
            closing = at[0] + 2  # } and ] lie two behind { and [
            at = skip_space(at + 1, end)
            if at < end and at[0] == closing:
                at += 1
            else:
                objects = objects << 1 | (closing == c'}')
                depth += 1
                if closing == c'}':
                    at = skip_key(at, end, plain)
                    if at == NULL:
                        return NULL
                continue
        else:
            at = skip_scalar(at, end, plain)
            if at == NULL:
                return NULL
        while True:  # a value has ended, and with it perhaps what it was the last one of
            if depth == 0:
                return at
            at = skip_space(at, end)
            if at == end:
                return NULL
            if at[0] == c',':
                at += 1
                if objects & 1:
                    at = skip_key(at, end, plain)
                    if at == NULL:
                        return NULL
                break
            if at[0] != (c'}' if objects & 1 else c']'):
                return NULL
            at += 1
            objects >>= 1
            depth -= 1

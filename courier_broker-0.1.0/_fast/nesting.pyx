"""Where JSON is nested too deep, found in one walk over its bytes.

A regular expression that yields every string and bracket makes a Python object for each: 0.3 s of the loop for a body
of one megabyte that holds nothing but brackets, and more than the parsing itself for a frame of a hundred events. Here
a byte costs about a nanosecond, whatever it is, and a tenth of that in a document with no more brackets than it may
have levels: the compiler makes vector instructions of the count. The grammar is not checked: a string that does not end is taken to the
end of the bytes, and brackets need not match.
"""


cdef Py_ssize_t openings(const unsigned char* data, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t place
    cdef Py_ssize_t count = 0
    for place in range(length):
        count += (data[place] | 0x20) == c'{'  # so is [, which differs from { in that bit alone
    return count


cdef Py_ssize_t walk(const unsigned char* data, Py_ssize_t length, Py_ssize_t levels) noexcept nogil:
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t depth = 0
    while place < length:
        if data[place] == c'"':
            place += 1
            while place < length and data[place] != c'"':
                place += 2 if data[place] == c'\\' else 1
        elif data[place] == c'{' or data[place] == c'[':
            depth += 1
            if depth > levels:
                return place
        elif data[place] == c'}' or data[place] == c']':
            depth -= 1
        place += 1
    return -1


def deeper_than(bytes data not None, Py_ssize_t levels):
    if openings(data, len(data)) <= levels:
        return -1
    return walk(data, len(data), levels)

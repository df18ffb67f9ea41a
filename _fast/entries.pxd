from libc.stdint cimport int64_t

cdef class Entry:
    cdef readonly object stream
    cdef readonly object seq               # an int; an object, because it is a key, and is written as text
    cdef readonly object id
    cdef readonly bytes envelope
    cdef readonly object received_at
    cdef readonly object partition
    cdef readonly object origin
    cdef public object holder
    cdef public object first_attempt_at
    cdef public int64_t attempt
    cdef public int64_t lease
    cdef public int64_t uncounted
    cdef public bint unsent

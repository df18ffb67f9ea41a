from libc.stdint cimport int64_t

from _fast.entries cimport Entry

cdef class Handed:
    cdef readonly object _tap
    cdef readonly object _place
    cdef readonly Entry _entry
    cdef public object _envelope
    cdef public int64_t attempt
    cdef public bint settled

    cdef inline bint _is_held(self) noexcept

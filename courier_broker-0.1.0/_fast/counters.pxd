from libc.stdint cimport int64_t

cdef class Counters:
    cdef readonly int64_t came
    cdef readonly int64_t delivered
    cdef readonly int64_t redelivered
    cdef readonly int64_t acked
    cdef readonly int64_t nacked
    cdef readonly int64_t dead

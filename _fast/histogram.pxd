from libc.stdint cimport int64_t

cdef class Histogram:
    cdef int64_t* _counts   # one for each bucket; NULL while nothing is recorded
    cdef int64_t _count
    cdef int64_t _total

    cdef int _allocate(self) except -1
    cpdef record(self, int64_t value_us)

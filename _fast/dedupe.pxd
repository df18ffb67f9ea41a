from libc.stdint cimport int32_t, int64_t, uint64_t

cdef struct Digest:
    uint64_t low
    uint64_t high

# 40 bytes. `state` is the sequence (> 0), minus the batch (< 0), or 0 for an entry that is free.
cdef struct Entry:
    Digest digest
    int64_t state
    int32_t chain   # next entry of the same bucket, or next free entry
    int32_t older   # neighbours in the order of use; committed entries only
    int32_t newer

cdef class Dedupe:
    cdef Entry* _entries
    cdef int32_t* _buckets
    cdef uint64_t _bucket_mask
    cdef Digest _key
    cdef int32_t _capacity
    cdef int32_t _used       # entries that were ever taken
    cdef int32_t _free       # head of the list of entries given back
    cdef int32_t _count
    cdef int32_t _in_flight
    cdef int32_t _oldest
    cdef int32_t _newest
    cdef int64_t _evictions

    cdef Digest _digest(self, bytes identity) noexcept
    cdef int32_t _find(self, Digest digest) noexcept nogil
    cdef int32_t _add(self, Digest digest, int64_t state) noexcept nogil
    cdef void _remove(self, int32_t index) noexcept nogil
    cdef void _link_newest(self, int32_t index) noexcept nogil
    cdef void _unlink(self, int32_t index) noexcept nogil
    cdef int32_t _find_in_flight(self, bytes identity) except -1

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef struct Digest:
    uint64_t low
    uint64_t high

# 40 bytes. `state` is the sequence (> 0), minus the batch (< 0), or 0 for an entry that is free.
cdef struct Entry:
    Digest digest
    int64_t state
    int32_t chain   # next entry of the same bucket, or next free entry
    int32_t older   # neighbours in its order
    int32_t newer

# In flight: the order of the claims. Committed: the order of use.
cdef struct Order:
    int32_t oldest
    int32_t newest

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
    cdef Order _flying
    cdef Order _committed
    cdef int64_t _evictions

    cdef Digest _digest(self, bytes identity) noexcept
    cdef Digest _digest_of(self, const char* data, Py_ssize_t size) noexcept nogil
    cdef int32_t _find(self, Digest digest) noexcept nogil
    cdef int32_t _add(self, Digest digest, int64_t state) noexcept nogil
    cdef void _remove(self, int32_t index) noexcept nogil
    cdef void _link(self, Order* order, int32_t index) noexcept nogil
    cdef void _unlink(self, Order* order, int32_t index) noexcept nogil
    cdef void _use(self, int32_t index) noexcept nogil
    cdef void _land(self, int32_t index, int64_t seq) noexcept nogil
    cdef void _prefetch(self, const Digest* digests, Py_ssize_t count) noexcept nogil
    cdef int64_t _claim(self, Digest digest, int64_t batch) noexcept nogil
    cdef int32_t _count_of(self, int64_t batch) noexcept nogil
    cdef int32_t _find_in_flight(self, bytes identity) except -1

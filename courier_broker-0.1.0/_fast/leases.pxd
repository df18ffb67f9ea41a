from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t

# 40 bytes. A node that is out sits in one bucket chain and in one slot of the wheel.
cdef struct Node:
    int64_t key
    int64_t deadline_ms
    int32_t chain    # next node of the same bucket, or next free node
    int32_t before   # neighbours in the slot
    int32_t after
    int32_t attempt
    int32_t slot     # of the wheel; -1 while the node is free, or while `expire` hands it out

cdef struct Slot:
    int32_t first
    int32_t last

cdef class Leases:
    cdef list _items             # the item of each node; None where the node is free
    cdef Node* _nodes
    cdef int32_t* _buckets       # number of the first node plus one; 0 is empty
    cdef uint64_t _bucket_mask
    cdef Slot[512] _slots        # 8 levels of 64
    cdef uint64_t[8] _occupied   # per level, which of its slots have nodes
    cdef int64_t _now_ms
    cdef int32_t _capacity
    cdef int32_t _allocated
    cdef int32_t _used           # nodes that were ever taken
    cdef int32_t _free           # head of the list of nodes given back
    cdef int32_t _free_count     # how long that list is
    cdef int32_t _count

    cdef uint64_t _bucket(self, int64_t key) noexcept nogil
    cdef int32_t _find(self, int64_t key) noexcept nogil
    cdef int32_t _held_by(self, int64_t key, int64_t attempt) noexcept nogil
    cdef int _check_deadline(self, int64_t deadline_ms) except -1
    cdef int _check_attempt(self, int64_t attempt) except -1
    cdef int _grow(self) except -1
    cdef int64_t _spare(self) noexcept nogil
    cdef int _reserve(self, int64_t count) except -1
    cdef int32_t _take_node(self, int64_t key, int64_t attempt, int64_t deadline_ms) noexcept nogil
    cdef void _schedule(self, int32_t node, int64_t deadline_ms) noexcept nogil
    cdef void _unschedule(self, int32_t node) noexcept nogil
    cdef void _unchain(self, int32_t node) noexcept nogil
    cdef void _give_back(self, int32_t node) noexcept nogil
    cdef void _end(self, int32_t node) noexcept nogil
    cdef int _earliest_level(self) noexcept nogil
    cdef int64_t _slot_time(self, int level, int position) noexcept nogil
    cdef int32_t _detach_due(self, int64_t now_ms, int64_t limit) noexcept nogil

from libc.stdint cimport int32_t, int64_t

# 16 bytes. `generation` is odd while the seat is taken; it makes tickets unique.
cdef struct Seat:
    int32_t credit
    int32_t generation
    int32_t before   # neighbours in the line while credit > 0; `after` is the next free seat while free
    int32_t after

cdef class Credits:
    cdef list _subscribers
    cdef Seat* _seats
    cdef int32_t _allocated
    cdef int32_t _used       # seats that were ever taken
    cdef int32_t _free       # head of the list of seats given back
    cdef int32_t _turn       # whose turn it is; the line is a circle through here
    cdef int32_t _count
    cdef int32_t _ready
    cdef int32_t _credit_max

    cdef int32_t _seat_of(self, int64_t ticket) except -1
    cdef int _grow(self) except -1
    cdef int64_t _credit_up_to(self, int64_t limit) noexcept nogil
    cdef int32_t _serve(self) noexcept nogil
    cdef void _join_line(self, int32_t seat) noexcept nogil
    cdef void _leave_line(self, int32_t seat) noexcept nogil

"""Whose turn it is, among the subscribers that have credit.

The line is a circle of seats: a pick serves the seat whose turn it is and moves the turn on, so that
"go to the back of the line" costs nothing. A seat without credit is not in the circle. Rejected: a
deque that is rotated past those without credit, which makes one pick cost as much as there are
subscribers that wait for their consumers, the normal state of a busy stream.
"""

cimport cython
from libc.stdlib cimport free, realloc

from types import GenericAlias

from _fast.credits cimport Seat
from _fast.held cimport held_put, held_take

cdef int32_t NONE = -1
cdef int32_t SEATS_FIRST = 4
cdef int32_t SEATS_MAX = 1 << 30
cdef int64_t CREDIT_MAX = 2**31 - 1


@cython.final
cdef class Credits:
    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self, int64_t credit_max):
        if not 1 <= credit_max <= CREDIT_MAX:
            raise ValueError(f"credit_max must be from 1 to {CREDIT_MAX}, not {credit_max}")
        self._credit_max = <int32_t>credit_max
        self._subscribers = []
        self._free = self._turn = NONE

    def __dealloc__(self):
        free(self._seats)

    @property
    def credit_max(self):
        return self._credit_max

    @property
    def ready(self):
        return self._ready

    cdef int32_t _seat_of(self, int64_t ticket) except -1:
        """The seat that a ticket names: the low half is the seat, the high half its generation."""
        cdef int64_t seat = ticket & 0x7FFFFFFF
        cdef int64_t generation = ticket >> 31
        # Only an odd generation was ever handed out: an even one is that of an empty seat.
        if ticket < 0 or not generation & 1 or seat >= self._used or self._seats[seat].generation != generation:
            raise KeyError(f"ticket {ticket} is not in use")
        return <int32_t>seat

    cdef int _grow(self) except -1:
        cdef int32_t wanted = max(SEATS_FIRST, self._allocated * 2)
        cdef Seat* seats
        if wanted > SEATS_MAX:
            raise OverflowError(f"more than {SEATS_MAX} subscribers")
        self._subscribers.extend([None] * (wanted - len(self._subscribers)))
        if wanted <= self._allocated:
            return 0  # making that list ran the collector, and that grew us
        seats = <Seat*>realloc(self._seats, <size_t>wanted * sizeof(Seat))
        if seats == NULL:
            raise MemoryError(f"no memory for {wanted} subscribers")
        self._seats = seats
        self._allocated = wanted
        return 0

    cdef void _join_line(self, int32_t seat) noexcept nogil:
        cdef int32_t back
        if self._turn == NONE:
            self._turn = self._seats[seat].before = self._seats[seat].after = seat
        else:
            back = self._seats[self._turn].before
            self._seats[seat].before = back
            self._seats[seat].after = self._turn
            self._seats[back].after = seat
            self._seats[self._turn].before = seat
        self._ready += 1

    cdef void _leave_line(self, int32_t seat) noexcept nogil:
        cdef int32_t before = self._seats[seat].before
        cdef int32_t after = self._seats[seat].after
        if after == seat:
            self._turn = NONE
        else:
            self._seats[before].after = after
            self._seats[after].before = before
            if self._turn == seat:
                self._turn = after
        self._ready -= 1

    def join(self, subscriber):
        cdef int32_t seat
        if subscriber is None:
            raise TypeError("a subscriber cannot be None")
        while self._free == NONE and self._used == self._allocated:
            self._grow()
        if self._free != NONE:
            seat = self._free
            self._free = self._seats[seat].after
            self._seats[seat].generation += 1
        else:
            seat = self._used
            self._used += 1
            self._seats[seat].generation = 1
        self._seats[seat].credit = 0
        held_put(self._subscribers, seat, subscriber)
        self._count += 1
        return (<int64_t>self._seats[seat].generation << 31) | seat

    def leave(self, int64_t ticket):
        cdef int32_t seat = self._seat_of(ticket)
        cdef object subscriber = held_take(self._subscribers, seat)
        if self._seats[seat].credit > 0:
            self._leave_line(seat)
        self._count -= 1
        # A seat whose generation could not be counted up once more is retired.
        if self._seats[seat].generation < 2**31 - 3:
            self._seats[seat].generation += 1
            self._seats[seat].after = self._free
            self._free = seat
        else:
            self._seats[seat].generation = 0
        del subscriber  # last: its destructor may call back into this object

    def grant(self, int64_t ticket, int64_t credit):
        cdef int32_t seat = self._seat_of(ticket)
        if credit < 1:
            raise ValueError(f"credit must be at least 1, not {credit}")
        if credit > self._credit_max - self._seats[seat].credit:
            raise OverflowError(
                f"{credit} more than {self._seats[seat].credit} is past the bound of {self._credit_max}"
            )
        if self._seats[seat].credit == 0:
            self._join_line(seat)
        self._seats[seat].credit += <int32_t>credit
        return self._seats[seat].credit

    cdef int64_t _credit_up_to(self, int64_t limit) noexcept nogil:
        """The credit of the whole line, or `limit` if it is no less; it looks at no more than `limit` seats."""
        cdef int32_t seat = self._turn
        cdef int32_t left = self._ready
        cdef int64_t credit = 0
        while left > 0 and credit < limit:
            credit += self._seats[seat].credit
            seat = self._seats[seat].after
            left -= 1
        return min(credit, limit)

    cdef int32_t _serve(self) noexcept nogil:
        """Take one credit from the seat whose turn it is, and move the turn on; there must be one."""
        cdef int32_t seat = self._turn
        self._seats[seat].credit -= 1
        if self._seats[seat].credit == 0:
            self._leave_line(seat)
        else:
            self._turn = self._seats[seat].after
        return seat

    def pick(self):
        return None if self._turn == NONE else self._subscribers[self._serve()]

    def pick_many(self, int64_t limit):
        cdef list picked
        cdef Py_ssize_t count = 0
        if limit < 0:
            raise ValueError(f"limit must be at least 0, not {limit}")
        picked = [None] * self._credit_up_to(limit)
        # Making that list may have run somebody else's code, so there may be less credit now.
        while count < len(picked) and self._turn != NONE:
            held_put(picked, count, self._subscribers[self._serve()])
            count += 1
        if count < len(picked):
            del picked[count:]
        return picked

    def credit_of(self, int64_t ticket):
        return self._seats[self._seat_of(ticket)].credit

    def __len__(self):
        return self._count

    def __sizeof__(self):
        cdef size_t storage = 0 if self._subscribers is None else self._subscribers.__sizeof__()
        return type(self).__basicsize__ + storage + <size_t>self._allocated * sizeof(Seat)

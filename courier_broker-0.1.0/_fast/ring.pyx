"""The events of one stream that wait for a subscriber.

Why not `deque(maxlen=…)`: it drops an old item to make room, silently. Why the place of a popped
item stays reserved: a nack or an expired lease must be able to put its event back whatever has been
pushed meanwhile; with a bound on waiting items alone, that put-back would find the ring full, and
the event would have nowhere to go. Why storage doubles on demand: ten thousand idle streams with a
bound of 100,000 each would otherwise cost 8 GB. Why wrap by comparison and not by mask: the last
doubling stops at the bound itself, which need not be a power of two.
"""

cimport cython

from types import GenericAlias

from _fast.held cimport held_move, held_put, held_take

cdef Py_ssize_t SLOTS_FIRST = 8
cdef Py_ssize_t CAPACITY_MAX = 2**31 - 1


@cython.final
cdef class Ring:
    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self, Py_ssize_t capacity):
        if not 1 <= capacity <= CAPACITY_MAX:
            raise ValueError(f"capacity must be from 1 to {CAPACITY_MAX}, not {capacity}")
        self._capacity = capacity

    @property
    def capacity(self):
        return self._capacity

    @property
    def held(self):
        return self._held

    @property
    def allocated(self):
        return self._allocated

    cdef inline Py_ssize_t _place(self, Py_ssize_t distance) noexcept:
        """The place that lies `distance` behind the head."""
        cdef Py_ssize_t place = self._head + distance
        return place - self._allocated if place >= self._allocated else place

    cdef bint _resize(self, Py_ssize_t wanted) except -1:
        """Move the waiting items into storage of `wanted` places.

        Making a list may run the garbage collector, and that may call back into this ring: so the
        list is made first, and the state is looked at afterwards, with nothing in between.
        """
        cdef list slots = [None] * wanted
        cdef Py_ssize_t index
        if self._slots is None:  # before the first push, or the collector took the storage apart
            self._allocated = self._head = self._size = 0
        elif self._size > wanted:
            return False  # somebody pushed meanwhile
        for index in range(self._size):
            held_move(self._slots, self._place(index), slots, index)
        self._slots = slots
        self._allocated = wanted
        self._head = 0
        return True

    cdef bint _make_room(self, Py_ssize_t count) except -1:
        """Make sure that `count` more items have a place to go, as far as the bound allows."""
        while self._slots is None or self._allocated < min(self._size + count, self._capacity):
            self._resize(min(max(SLOTS_FIRST, self._size * 2, self._size + count), self._capacity))
        return True

    cdef bint _reserve(self) except -1:
        """Make sure that an item is held, and that it has a place to go back to."""
        if self._held == 0:
            raise ValueError("nothing is held that could be put back")
        self._make_room(1)
        if self._held == 0:  # making room may have run somebody else's code
            raise ValueError("nothing is held that could be put back")
        return True

    def push(self, item):
        if item is None:
            raise TypeError("a ring cannot hold None")
        if self._slots is None or self._size == self._allocated:
            if self._size + self._held >= self._capacity:
                return False
            self._make_room(1)
        if self._size + self._held >= self._capacity:
            return False
        held_put(self._slots, self._place(self._size), item)
        self._size += 1
        return True

    def pop(self):
        if self._size == 0 or self._slots is None:
            return None
        cdef object item = held_take(self._slots, self._head)
        self._head = self._place(1)
        self._size -= 1
        self._held += 1
        return item

    def push_many(self, list items not None):
        cdef Py_ssize_t accepted = min(len(items), self._capacity - self._size - self._held)
        cdef Py_ssize_t index
        if accepted > 0:
            self._make_room(accepted)
        # Making room may have run somebody else's code, so everything is looked at after it.
        for index in range(len(items)):
            if items[index] is None:
                raise TypeError(f"a ring cannot hold None, which is item {index} of the batch")
        accepted = max(0, min(len(items), self._allocated - self._size, self._capacity - self._size - self._held))
        for index in range(accepted):
            held_put(self._slots, self._place(self._size), items[index])
            self._size += 1
        return accepted

    def pop_many(self, Py_ssize_t limit):
        cdef list items
        cdef Py_ssize_t index
        if limit < 0:
            raise ValueError(f"limit must be at least 0, not {limit}")
        items = [None] * min(limit, self._size)
        # Making that list may have run somebody else's code, so the ring is looked at after it.
        if self._slots is None:
            return []
        if self._size < len(items):
            del items[self._size:]
        for index in range(len(items)):
            held_move(self._slots, self._head, items, index)
            self._head = self._place(1)
        self._size -= len(items)
        self._held += len(items)
        return items

    def release(self, Py_ssize_t count=1):
        if not 0 <= count <= self._held:
            raise ValueError(f"{count} places cannot be given up: {self._held} items are held")
        self._held -= count

    def requeue(self, item):
        if item is None:
            raise TypeError("a ring cannot hold None")
        self._reserve()
        held_put(self._slots, self._place(self._size), item)
        self._size += 1
        self._held -= 1

    def restore(self, item):
        if item is None:
            raise TypeError("a ring cannot hold None")
        self._reserve()
        self._head = (self._head if self._head else self._allocated) - 1
        held_put(self._slots, self._head, item)
        self._size += 1
        self._held -= 1

    def compact(self):
        cdef Py_ssize_t wanted
        if self._size == 0:
            self._slots = None
            self._allocated = self._head = 0
            return
        wanted = min(max(SLOTS_FIRST, self._size), self._capacity)
        if wanted < self._allocated:
            self._resize(wanted)

    def __len__(self):
        return self._size

    def __sizeof__(self):
        cdef Py_ssize_t storage = 0 if self._slots is None else self._slots.__sizeof__()
        return type(self).__basicsize__ + storage

cdef class Ring:
    cdef list _slots            # None before the first push; every place holds an item or None
    cdef Py_ssize_t _allocated  # places in _slots
    cdef Py_ssize_t _head       # place of the next item to pop
    cdef Py_ssize_t _size       # items that wait
    cdef Py_ssize_t _held       # items popped, neither released nor put back
    cdef Py_ssize_t _capacity   # bound on _size + _held

    cdef inline Py_ssize_t _place(self, Py_ssize_t distance) noexcept
    cdef bint _resize(self, Py_ssize_t wanted) except -1
    cdef bint _make_room(self, Py_ssize_t count) except -1
    cdef bint _reserve(self) except -1

"""Ints as numbers of C: one, or a list as an array, so that a batch is read as a whole before anything is done with it.

Only ints are taken, and not whatever can say that it is one: reading them runs nobody else's code.
"""

from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc


cdef inline int64_t* numbers_in(list values) except NULL:
    """The numbers of a list; whoever asked must free them."""
    cdef Py_ssize_t index
    cdef int64_t* numbers = <int64_t*>malloc(<size_t>(len(values) + 1) * sizeof(int64_t))
    if numbers == NULL:
        raise MemoryError(f"no memory for {len(values)} numbers")
    try:
        for index in range(len(values)):
            if not isinstance(values[index], int):
                raise TypeError(f"number {index} of the batch is not an int: {values[index]!r}")
            numbers[index] = values[index]
    except BaseException:
        free(numbers)
        raise
    return numbers


cdef inline int64_t number_in(object value) except? -1:
    """A number of 64 bits in a plain int: reading any other object may run its own code."""
    if not PyLong_CheckExact(value):
        raise TypeError(f"an int is needed here, not {type(value).__name__}")
    return value


cdef inline int64_t natural_in(object value) except -1:
    """The same, from 0 on: what is written as text must not have a sign."""
    cdef int64_t number = number_in(value)
    if number < 0:
        raise ValueError(f"a number from 0 on is needed here, not {number}")
    return number

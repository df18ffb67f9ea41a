"""A list of ints as an array of C, so that a batch is read as a whole before anything is done with it.

Only ints are taken, and not whatever can say that it is one: reading them runs nobody else's code.
"""

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

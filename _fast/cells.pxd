from libc.stdint cimport int32_t, int64_t

cdef enum:
    KIND_NULL
    KIND_INTEGER
    KIND_TEXT
    KIND_BLOB

# One value to bind. The bytes belong to an object that the caller's list keeps alive.
cdef struct Cell:
    const char* data
    int64_t integer   # the integer, or the number of bytes
    int32_t kind      # one of KIND_*

cdef class Cells:
    cdef Cell* cells
    cdef Py_ssize_t rows
    cdef Py_ssize_t columns
    cdef int64_t total_bytes
    cdef unsigned char* digests   # made here, 32 bytes a row; NULL where none are

    cdef int reserve_digests(self) except -1
    cdef void hash_missing(self, Py_ssize_t text, Py_ssize_t digest, bint in_lanes) noexcept nogil
    cdef int check_keys(self) except -1
    cdef int fill(self, object rows, Py_ssize_t columns) except -1

cdef class Indexes:
    cdef int64_t* values

    cdef int fill(self, object causes, Py_ssize_t rows) except -1

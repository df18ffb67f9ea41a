"""The rows of one batch as plain C, for the commit loop, which has no GIL to look at objects with."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t

from _fast.cells cimport Cell

cdef extern from "sha256.h":
    enum:
        COURIER_LANES
    void courier_sha256_one(const unsigned char* text, size_t length, unsigned char* digest) noexcept nogil
    void courier_sha256_four(const unsigned char* const* texts, const size_t* lengths, unsigned char* const* digests) noexcept nogil

cdef enum:
    DIGEST_BYTES = 32
    BYTES_MAX = 0x7FFFFFFF


@cython.final
cdef class Cells:
    """The values of several rows as plain C, so that they can be bound without the GIL."""

    def __dealloc__(self):
        PyMem_Free(self.cells)
        PyMem_Free(self.digests)

    cdef int reserve_digests(self) except -1:
        """Make room for a digest of each row."""
        self.digests = <unsigned char*>PyMem_Malloc(<size_t>max(1, self.rows) * DIGEST_BYTES)
        if self.digests == NULL:
            raise MemoryError(f"no memory for the digests of {self.rows} rows")
        return 0

    cdef void hash_missing(self, Py_ssize_t text, Py_ssize_t digest, bint in_lanes) noexcept nogil:
        """Where the column `digest` is NULL and `text` is not, put the SHA-256 of `text` there: in lanes, or one by one, for which
        the processor must have instructions."""
        cdef const unsigned char* texts[COURIER_LANES]
        cdef size_t lengths[COURIER_LANES]
        cdef unsigned char* digests[COURIER_LANES]
        cdef unsigned char unused[DIGEST_BYTES]
        cdef Py_ssize_t row
        cdef int lane
        cdef int lanes = 0
        cdef Cell* cells
        for row in range(self.rows):
            cells = self.cells + row * self.columns
            if cells[digest].kind != KIND_NULL or cells[text].kind < KIND_TEXT:
                continue
            cells[digest].kind = KIND_BLOB
            cells[digest].data = <const char*>self.digests + row * DIGEST_BYTES
            cells[digest].integer = DIGEST_BYTES
            if not in_lanes:
                courier_sha256_one(<const unsigned char*>cells[text].data, <size_t>cells[text].integer, self.digests + row * DIGEST_BYTES)
                continue
            texts[lanes] = <const unsigned char*>cells[text].data
            lengths[lanes] = <size_t>cells[text].integer
            digests[lanes] = self.digests + row * DIGEST_BYTES
            lanes += 1
            if lanes == COURIER_LANES:
                courier_sha256_four(texts, lengths, digests)
                lanes = 0
        if lanes:
            for lane in range(lanes, COURIER_LANES):
                texts[lane] = unused
                lengths[lane] = 0
                digests[lane] = unused
            courier_sha256_four(texts, lengths, digests)

    cdef int check_keys(self) except -1:
        """Raise TypeError if the first value of a row is no integer."""
        cdef Py_ssize_t row
        for row in range(self.rows):
            if self.cells[row * self.columns].kind != KIND_INTEGER:
                raise TypeError(f"the first value of row {row} is its key, and must be an int")
        return 0

    cdef int fill(self, object rows, Py_ssize_t columns) except -1:
        """Point at the values of `rows`, which the caller keeps alive and unchanged as long as this is used."""
        cdef Py_ssize_t row_index
        cdef Py_ssize_t column
        cdef Py_ssize_t size
        cdef tuple row
        cdef object value
        cdef Cell* cell
        self.rows = len(rows)
        self.columns = columns
        self.total_bytes = 0
        self.cells = <Cell*>PyMem_Malloc(<size_t>max(1, self.rows * columns) * sizeof(Cell))
        if self.cells == NULL:
            raise MemoryError(f"no memory for a batch of {self.rows} rows")
        cell = self.cells
        for row_index in range(self.rows):
            value = rows[row_index]
            if not isinstance(value, tuple) or len(value) != columns:
                raise TypeError(f"row {row_index} is not a tuple of {columns} values")
            row = <tuple>value
            for column in range(columns):
                value = row[column]
                cell.data = NULL
                cell.integer = 0
                if value is None:
                    cell.kind = KIND_NULL
                elif PyLong_CheckExact(value):
                    cell.kind = KIND_INTEGER
                    cell.integer = value
                elif type(value) is str:
                    cell.kind = KIND_TEXT
                    cell.data = PyUnicode_AsUTF8AndSize(value, &size)
                    cell.integer = size
                elif type(value) is bytes:
                    cell.kind = KIND_BLOB
                    cell.data = PyBytes_AS_STRING(value)
                    cell.integer = PyBytes_GET_SIZE(value)
                else:
                    raise TypeError(f"value {column} of row {row_index} is a {type(value).__name__}, not int, str, bytes or None")
                if cell.kind >= KIND_TEXT and cell.integer > BYTES_MAX:
                    raise TypeError(f"value {column} of row {row_index} has {cell.integer} bytes, more than {BYTES_MAX}")
                if cell.kind >= KIND_TEXT:
                    self.total_bytes += cell.integer
                cell += 1
        return 0


@cython.final
cdef class Indexes:
    """For each row of a batch the index of its cause, an earlier row, as plain C; -1 for none."""

    def __dealloc__(self):
        PyMem_Free(self.values)

    cdef int fill(self, object causes, Py_ssize_t rows) except -1:
        cdef Py_ssize_t row
        cdef int64_t cause
        if len(causes) != rows:
            raise ValueError(f"there are {len(causes)} causes for {rows} events")
        self.values = <int64_t*>PyMem_Malloc(<size_t>max(1, rows) * sizeof(int64_t))
        if self.values == NULL:
            raise MemoryError(f"no memory for the causes of {rows} events")
        for row in range(rows):
            cause = causes[row]
            if not -1 <= cause < row:
                raise ValueError(f"the cause of row {row} is {cause}, which is not an earlier row")
            self.values[row] = cause
        return 0

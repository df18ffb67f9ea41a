from libc.stdint cimport int64_t

from _fast.cells cimport Cell, Cells

cdef extern from "sqlite_api.h":
    ctypedef struct sqlite3_stmt:
        pass
    ctypedef struct courier_connection:
        void* db
        const void* api

cdef struct Outcome:
    int64_t seq            # > 0 new, < 0 duplicate, 0 refused, or left out because its cause is not new
    int64_t received_at    # of the original, for a duplicate
    int64_t conflict

cdef struct Update:
    int64_t key
    Py_ssize_t row

cdef class Written:
    cdef readonly list seqs
    cdef readonly dict duplicates
    cdef readonly int64_t next_seq
    cdef readonly int64_t total_bytes

cdef class Committer:
    cdef courier_connection _connection
    cdef sqlite3_stmt* _begin
    cdef sqlite3_stmt* _commit
    cdef sqlite3_stmt* _rollback
    cdef sqlite3_stmt* _insert
    cdef sqlite3_stmt* _duplicate
    cdef sqlite3_stmt* _update
    cdef sqlite3_stmt* _link
    cdef Py_ssize_t _event_columns
    cdef Py_ssize_t _update_columns
    cdef Py_ssize_t _text_column      # what is hashed, and where its digest goes; -1 for nothing
    cdef Py_ssize_t _digest_column
    cdef bint _in_lanes
    cdef Py_ssize_t _latest_column    # of an update, what a run takes the largest of; -1 for no runs

    cdef sqlite3_stmt* _prepare(self, str sql) except NULL
    cdef int _run(self, sqlite3_stmt* statement) noexcept nogil
    cdef int _bind(self, sqlite3_stmt* statement, int first, const Cell* cells, Py_ssize_t count, const Cell* bound) noexcept nogil
    cdef int _insert_one(self, const Cell* cells, const Cell* bound, int64_t seq, Outcome* outcome) noexcept nogil
    cdef int _link_one(self, int64_t effect_seq, int64_t cause_seq) noexcept nogil
    cdef int _insert_all(self, Cells events, const int64_t* causes, Outcome* outcomes, int64_t* next_seq) noexcept nogil
    cdef Py_ssize_t _end_of_run(self, Cells updates, const Update* order, Py_ssize_t first) noexcept nogil
    cdef int _update_all(self, Cells updates, Update* order) noexcept nogil
    cdef int _write_all(self, Cells events, Cells updates, const int64_t* causes, Outcome* outcomes, int64_t* next_seq, Update* order, bint commit) noexcept nogil
    cdef _fail(self)

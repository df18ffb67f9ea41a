"""The commit loop: a whole batch of events into SQLite with one release of the GIL.

apsw releases and retakes the GIL around every `sqlite3_step`. Alone that costs little; beside a busy
event loop each retake waits for up to a switch interval, and `executemany` falls from 400,000 rows a
second to a few thousand. Here the values of a batch are gathered under the GIL, then everything from
BEGIN to COMMIT, the fsync included, runs without it. Rejected: one `INSERT … SELECT FROM json_each(?)`
a batch, which also takes the GIL once but parses its own JSON, and multi-row VALUES, which still takes
it in proportion to the rows. A duplicate is found by the insert that changed nothing, not by RETURNING
on every row, which halves the rate for the sake of the rare case.

An event that comes without its hash gets it here, in the same stretch without the GIL: on the loop, OpenSSL's took longer
than all the rest of the parsing.

Updates go by runs: those of keys that follow each other, with the same values, are one statement. What consumers
acknowledge comes in the order of delivery, but for the turns that they take, so that a sort by key makes one run of hundreds,
at half of what they cost one by one.

A row may have an earlier row of its batch as its cause. Whether that one is new shows here and nowhere
before, so it is here that the effect of a duplicate is left out.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint64_t
from libc.stdlib cimport qsort

from _fast.cells cimport KIND_BLOB, KIND_INTEGER, KIND_TEXT, Cell, Cells, Indexes
from _fast.commit cimport Outcome, Update

cdef extern from "sqlite_api.h":
    enum:
        COURIER_SQLITE_OK
        COURIER_SQLITE_TOOBIG
        COURIER_SQLITE_CONSTRAINT
        COURIER_SQLITE_MISMATCH
        COURIER_SQLITE_ROW
        COURIER_SQLITE_DONE
    courier_connection courier_take_loaded() noexcept nogil
    int courier_bind_blob(const courier_connection*, sqlite3_stmt*, int, const void*, int) noexcept nogil
    int courier_bind_int64(const courier_connection*, sqlite3_stmt*, int, int64_t) noexcept nogil
    int courier_bind_null(const courier_connection*, sqlite3_stmt*, int) noexcept nogil
    int courier_bind_text(const courier_connection*, sqlite3_stmt*, int, const char*, int) noexcept nogil
    int courier_bind_parameter_count(const courier_connection*, sqlite3_stmt*) noexcept nogil
    int courier_changes(const courier_connection*) noexcept nogil
    int64_t courier_column_int64(const courier_connection*, sqlite3_stmt*, int) noexcept nogil
    const char* courier_errmsg(const courier_connection*) noexcept nogil
    int courier_finalize(const courier_connection*, sqlite3_stmt*) noexcept nogil
    int courier_get_autocommit(const courier_connection*) noexcept nogil
    int courier_libversion_number(const courier_connection*) noexcept nogil
    int courier_reset(const courier_connection*, sqlite3_stmt*) noexcept nogil
    int courier_step(const courier_connection*, sqlite3_stmt*) noexcept nogil
    int courier_prepare(const courier_connection*, const char*, int, sqlite3_stmt**) noexcept nogil
    int courier_extended_errcode(const courier_connection*) noexcept nogil

cdef extern from "sha256.h":
    bint courier_sha256_has_instructions() noexcept nogil


cdef inline bint is_same(const Cell* one, const Cell* other) noexcept nogil:
    """Whether both are the same value in the same place; the same text in another place does not count."""
    return one.kind == other.kind and one.data == other.data and one.integer == other.integer


cdef int by_key(const void* one, const void* other) noexcept nogil:
    """The order of updates: by key, and those of one key as they came."""
    cdef const Update* first = <const Update*>one
    cdef const Update* second = <const Update*>other
    if first.key != second.key:
        return -1 if first.key < second.key else 1
    return -1 if first.row < second.row else 1


class CommitError(Exception):
    def __init__(self, code, message):
        super().__init__(f"{message} (SQLite result code {code})")
        self.code = code


@cython.final
cdef class Written:
    pass


@cython.final
cdef class Committer:
    def __cinit__(self, str insert_sql not None, str duplicate_sql not None, str update_sql not None, str link_sql not None, hashed=None, latest=None, bint in_lanes=False):
        self._connection = courier_take_loaded()
        if self._connection.db == NULL:
            raise RuntimeError("load the extension _fast.COMMIT_EXTENSION on this thread first")
        try:
            self._begin = self._prepare("BEGIN IMMEDIATE")
            self._commit = self._prepare("COMMIT")
            self._rollback = self._prepare("ROLLBACK")
            self._insert = self._prepare(insert_sql)
            self._duplicate = self._prepare(duplicate_sql)
            self._update = self._prepare(update_sql)
            self._link = self._prepare(link_sql)
        except CommitError:
            self.close()
            raise
        self._event_columns = courier_bind_parameter_count(&self._connection, self._insert) - 1
        self._update_columns = courier_bind_parameter_count(&self._connection, self._update) - (latest is not None)
        self._latest_column = -1 if latest is None else latest
        if not -1 <= self._latest_column < self._update_columns or self._latest_column == 0:
            self.close()
            raise ValueError(f"latest names the column {latest}, but there are {self._update_columns}, and the first is the key")
        self._text_column = self._digest_column = -1
        # Asked once: in a virtual machine the processor's answer goes through its host, and took 80 µs on one.
        self._in_lanes = in_lanes or not courier_sha256_has_instructions()
        if hashed is not None:
            self._text_column, self._digest_column = hashed
            if not (0 <= self._text_column < self._event_columns and 0 <= self._digest_column < self._event_columns):
                self.close()
                raise ValueError(f"hashed names the columns {hashed}, but there are {self._event_columns}")
        if courier_bind_parameter_count(&self._connection, self._duplicate) != self._event_columns + 1:
            self.close()
            raise ValueError("duplicate_sql must have as many parameters as insert_sql")
        if courier_bind_parameter_count(&self._connection, self._link) != 2:
            self.close()
            raise ValueError("link_sql must have two parameters: the sequences of an effect and of its cause")

    @property
    def sqlite_version_number(self):
        return courier_libversion_number(&self._connection)

    cdef sqlite3_stmt* _prepare(self, str sql) except NULL:
        cdef Py_ssize_t size
        cdef const char* text = PyUnicode_AsUTF8AndSize(sql, &size)
        cdef sqlite3_stmt* statement = NULL
        if courier_prepare(&self._connection, text, <int>size, &statement) != COURIER_SQLITE_OK:
            self._fail()
        return statement

    cdef _fail(self):
        """Raise what SQLite says is wrong."""
        cdef int code = courier_extended_errcode(&self._connection)
        cdef const char* message = courier_errmsg(&self._connection)
        raise CommitError(code, (<bytes>message).decode("utf-8", "replace"))

    cdef int _run(self, sqlite3_stmt* statement) noexcept nogil:
        """Run a statement without parameters to its end."""
        cdef int code = courier_step(&self._connection, statement)
        if code == COURIER_SQLITE_DONE or code == COURIER_SQLITE_ROW:
            return courier_reset(&self._connection, statement)
        return code

    cdef int _bind(self, sqlite3_stmt* statement, int first, const Cell* cells, Py_ssize_t count, const Cell* bound) noexcept nogil:
        """Bind the values of a row. What `bound`, the row that was bound before, has in the same place stays as it is: most
        values of an event are NULL, or a name that the events around it have too, and a binding costs as much as a comparison
        of ten."""
        cdef int code = COURIER_SQLITE_OK
        cdef Py_ssize_t index
        cdef int place
        for index in range(count):
            if bound != NULL and is_same(&cells[index], &bound[index]):
                continue
            place = first + <int>index
            if cells[index].kind == KIND_TEXT:
                code = courier_bind_text(&self._connection, statement, place, cells[index].data, <int>cells[index].integer)
            elif cells[index].kind == KIND_INTEGER:
                code = courier_bind_int64(&self._connection, statement, place, cells[index].integer)
            elif cells[index].kind == KIND_BLOB:
                code = courier_bind_blob(&self._connection, statement, place, cells[index].data, <int>cells[index].integer)
            else:
                code = courier_bind_null(&self._connection, statement, place)
            if code != COURIER_SQLITE_OK:
                return code
        return code

    cdef int _insert_one(self, const Cell* cells, const Cell* bound, int64_t seq, Outcome* outcome) noexcept nogil:
        """Insert one event, or count it as a duplicate of its original."""
        cdef int code
        outcome.seq = 0
        code = self._bind(self._insert, 2, cells, self._event_columns, bound)
        if code == COURIER_SQLITE_OK:
            code = courier_bind_int64(&self._connection, self._insert, 1, seq)
        if code == COURIER_SQLITE_OK:
            code = courier_step(&self._connection, self._insert)
            courier_reset(&self._connection, self._insert)
        code &= 0xFF  # the result code without its extension
        if code == COURIER_SQLITE_TOOBIG or code == COURIER_SQLITE_CONSTRAINT or code == COURIER_SQLITE_MISMATCH:
            return COURIER_SQLITE_OK  # this row cannot be stored; the others can
        if code != COURIER_SQLITE_DONE:
            return code
        if courier_changes(&self._connection) == 1:
            outcome.seq = seq
            return COURIER_SQLITE_OK
        code = self._bind(self._duplicate, 2, cells, self._event_columns, NULL)
        if code == COURIER_SQLITE_OK:
            code = courier_bind_int64(&self._connection, self._duplicate, 1, seq)
        if code == COURIER_SQLITE_OK:
            code = courier_step(&self._connection, self._duplicate)
            if code == COURIER_SQLITE_ROW:
                outcome.seq = -courier_column_int64(&self._connection, self._duplicate, 0)
                outcome.received_at = courier_column_int64(&self._connection, self._duplicate, 1)
                outcome.conflict = courier_column_int64(&self._connection, self._duplicate, 2)
                code = courier_step(&self._connection, self._duplicate)
            if code == COURIER_SQLITE_DONE:
                return courier_reset(&self._connection, self._duplicate)
            courier_reset(&self._connection, self._duplicate)
        return code

    cdef int _link_one(self, int64_t effect_seq, int64_t cause_seq) noexcept nogil:
        """Note what caused an event."""
        cdef int code = courier_bind_int64(&self._connection, self._link, 1, effect_seq)
        if code == COURIER_SQLITE_OK:
            code = courier_bind_int64(&self._connection, self._link, 2, cause_seq)
        if code == COURIER_SQLITE_OK:
            code = self._run(self._link)
        if code != COURIER_SQLITE_OK:
            courier_reset(&self._connection, self._link)
        return code

    cdef int _insert_all(self, Cells events, const int64_t* causes, Outcome* outcomes, int64_t* next_seq) noexcept nogil:
        """Insert events in their order, but not one whose cause, an earlier row, is not new."""
        cdef Py_ssize_t row
        cdef int64_t cause = -1
        cdef const Cell* cells
        cdef const Cell* bound = NULL
        cdef int code
        for row in range(events.rows):
            if causes != NULL:
                cause = causes[row]
                if cause >= 0 and outcomes[cause].seq <= 0:
                    outcomes[row].seq = 0
                    continue
            cells = events.cells + row * self._event_columns
            code = self._insert_one(cells, bound, next_seq[0], &outcomes[row])
            bound = cells if outcomes[row].seq != 0 else NULL
            if code != COURIER_SQLITE_OK:
                return code
            if outcomes[row].seq > 0:
                next_seq[0] += 1
                if cause >= 0:
                    code = self._link_one(outcomes[row].seq, outcomes[cause].seq)
                    if code != COURIER_SQLITE_OK:
                        return code
        return COURIER_SQLITE_OK

    cdef Py_ssize_t _end_of_run(self, Cells updates, const Update* order, Py_ssize_t first) noexcept nogil:
        """Behind the last of those updates whose keys follow each other, and whose values are the same but for the latest."""
        cdef Py_ssize_t following = first + 1
        cdef Py_ssize_t column
        cdef const Cell* cells = updates.cells + order[first].row * updates.columns
        cdef const Cell* others
        if cells[self._latest_column].kind != KIND_INTEGER:
            return following
        while following < updates.rows and <uint64_t>order[following].key - <uint64_t>order[following - 1].key == 1:
            others = updates.cells + order[following].row * updates.columns
            for column in range(1, updates.columns):
                if column != self._latest_column and not is_same(&cells[column], &others[column]):
                    return following
            if others[self._latest_column].kind != KIND_INTEGER:
                return following
            following += 1
        return following

    cdef int _update_all(self, Cells updates, Update* order) noexcept nogil:
        """Run the updates: without `latest` one by one, else in runs, in the order of their keys, and those of one key in theirs."""
        cdef Py_ssize_t row = 0
        cdef Py_ssize_t end
        cdef Py_ssize_t index
        cdef int64_t latest
        cdef int code
        cdef const Cell* cells
        if self._latest_column >= 0:
            for index in range(updates.rows):
                order[index].key = updates.cells[index * updates.columns].integer
                order[index].row = index
            qsort(order, updates.rows, sizeof(Update), by_key)
        while row < updates.rows:
            if self._latest_column < 0:
                code = self._bind(self._update, 1, updates.cells + row * updates.columns, updates.columns, NULL)
                end = row + 1
            else:
                cells = updates.cells + order[row].row * updates.columns
                code = self._bind(self._update, 1, cells, updates.columns, NULL)
                end = self._end_of_run(updates, order, row)
                if code == COURIER_SQLITE_OK and end > row + 1:
                    latest = cells[self._latest_column].integer
                    for index in range(row + 1, end):
                        latest = max(latest, updates.cells[order[index].row * updates.columns + self._latest_column].integer)
                    code = courier_bind_int64(&self._connection, self._update, <int>self._latest_column + 1, latest)
                if code == COURIER_SQLITE_OK:
                    code = courier_bind_int64(&self._connection, self._update, <int>updates.columns + 1, order[end - 1].key)
            if code == COURIER_SQLITE_OK:
                code = self._run(self._update)
            if code != COURIER_SQLITE_OK:
                courier_reset(&self._connection, self._update)
                return code
            row = end
        return COURIER_SQLITE_OK

    cdef int _write_all(self, Cells events, Cells updates, const int64_t* causes, Outcome* outcomes, int64_t* next_seq, Update* order, bint commit) noexcept nogil:
        cdef int code
        if self._digest_column >= 0:
            events.hash_missing(self._text_column, self._digest_column, self._in_lanes)
        code = self._run(self._begin)
        if code != COURIER_SQLITE_OK:
            return code
        code = self._insert_all(events, causes, outcomes, next_seq)
        if code != COURIER_SQLITE_OK:
            return code
        code = self._update_all(updates, order)
        if code != COURIER_SQLITE_OK:
            return code
        return self._run(self._commit) if commit else COURIER_SQLITE_OK

    def write(self, events not None, updates not None, int64_t next_seq, bint commit, causes=None):
        cdef Cells event_cells = Cells()
        cdef Cells update_cells = Cells()
        cdef Indexes cause_indexes = None
        cdef const int64_t* cause_of = NULL
        cdef Written written = Written()
        cdef Outcome* outcomes
        cdef Update* order
        cdef Py_ssize_t row
        cdef int code
        self._check_open()
        event_cells.fill(events, self._event_columns)
        update_cells.fill(updates, self._update_columns)
        if self._latest_column >= 0:
            update_cells.check_keys()
        if self._digest_column >= 0:
            event_cells.reserve_digests()
        if causes is not None:
            cause_indexes = Indexes()
            cause_indexes.fill(causes, event_cells.rows)
            cause_of = cause_indexes.values
        outcomes = <Outcome*>PyMem_Malloc(<size_t>max(1, event_cells.rows) * sizeof(Outcome))
        order = <Update*>PyMem_Malloc(<size_t>max(1, update_cells.rows) * sizeof(Update))
        if outcomes == NULL or order == NULL:
            PyMem_Free(outcomes)
            PyMem_Free(order)
            raise MemoryError(f"no memory for the outcomes of {event_cells.rows} events and {update_cells.rows} updates")
        try:
            with nogil:
                code = self._write_all(event_cells, update_cells, cause_of, outcomes, &next_seq, order, commit)
            if code != COURIER_SQLITE_OK:
                self._fail_and_roll_back()
            written.next_seq = next_seq
            written.total_bytes = event_cells.total_bytes + update_cells.total_bytes
            written.seqs = [outcomes[row].seq for row in range(event_cells.rows)]
            written.duplicates = {
                row: (outcomes[row].received_at, outcomes[row].conflict != 0)
                for row in range(event_cells.rows) if outcomes[row].seq < 0
            }
        finally:
            PyMem_Free(outcomes)
            PyMem_Free(order)
        return written

    def _fail_and_roll_back(self):
        try:
            self._fail()
        finally:
            courier_reset(&self._connection, self._begin)
            courier_reset(&self._connection, self._commit)
            self.rollback()

    def commit(self):
        cdef int code
        self._check_open()
        with nogil:
            code = self._run(self._commit)
        if code != COURIER_SQLITE_OK:
            self._fail_and_roll_back()

    def rollback(self):
        self._check_open()
        if not courier_get_autocommit(&self._connection):
            with nogil:
                self._run(self._rollback)
                courier_reset(&self._connection, self._rollback)

    def _check_open(self):
        if self._connection.db == NULL:
            raise RuntimeError("this committer is closed")

    def close(self):
        if self._connection.db == NULL:
            return
        courier_finalize(&self._connection, self._begin)
        courier_finalize(&self._connection, self._commit)
        courier_finalize(&self._connection, self._rollback)
        courier_finalize(&self._connection, self._insert)
        courier_finalize(&self._connection, self._duplicate)
        courier_finalize(&self._connection, self._update)
        courier_finalize(&self._connection, self._link)
        self._connection.db = NULL

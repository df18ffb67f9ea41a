from _fast.request_walk cimport Request, Span

cdef class Memo:
    cdef object _make
    cdef list _texts
    cdef list _made

    cdef object look_up(self, Span text)

cdef class RequestReader:
    cdef object _template
    cdef type _kind
    cdef Memo _streams
    cdef Memo _types
    cdef Py_ssize_t _envelope_bytes_max
    cdef Py_ssize_t _requests_max
    cdef int _levels

    cdef object _event(self, const Request* request, object received_at, object envelope)
    cdef object _bare(self, object to, object raw, object received_at)

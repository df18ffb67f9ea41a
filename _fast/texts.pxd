cdef class FrameReader:
    cdef readonly bint is_plain
    cdef readonly Py_ssize_t held_bytes      # of a frame that has not come in full
    cdef list _parts
    cdef Py_ssize_t _text_bytes_max
    cdef Py_ssize_t _needed_bytes            # as long as less is there, there is nothing to look at

    cdef Py_ssize_t _read(self, const unsigned char* start, Py_ssize_t length, list texts, list others) except -1

"""Where the fields are in an InboundEvent, which is a tuple; a test holds this to its declaration."""

from cpython.object cimport PyObject

cdef enum:
    CONTRACT = 0
    STREAM = 1
    TYPE = 2
    SOURCE_SYSTEM = 3
    SOURCE_EVENT_ID = 4
    RECEIVED_AT = 5
    ENVELOPE = 6
    SOURCE_EMITTED_AT = 9
    CORRELATION_ID = 10
    PARTITION_KEY = 14
    FIELDS = 18


cdef extern from "Python.h":
    PyObject* PyTuple_GET_ITEM(object items, Py_ssize_t index) noexcept


cdef inline object part(object items, Py_ssize_t index):
    """A part of what is a tuple, and long enough."""
    return <object>PyTuple_GET_ITEM(items, index)

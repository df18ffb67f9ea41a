"""Moving references in and out of a list whose every place holds an object or None.

The structures keep the objects that they hold in a plain list, so that the garbage collector sees
them without a hand-written traversal. These move a reference without touching the count of the object
itself, and never run a destructor: a structure is not re-entered half way through a change.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(PyObject* held, Py_ssize_t index) noexcept
    void PyList_SET_ITEM(PyObject* held, Py_ssize_t index, PyObject* item) noexcept
    Py_ssize_t PyList_GET_SIZE(PyObject* held) noexcept


cdef inline int held_put(list held, Py_ssize_t index, object item) except -1:
    """Put an object where None is."""
    assert 0 <= index < PyList_GET_SIZE(<PyObject*>held), "a place outside the list"
    assert PyList_GET_ITEM(<PyObject*>held, index) is <PyObject*>None, "the place is taken"
    Py_INCREF(item)
    PyList_SET_ITEM(<PyObject*>held, index, <PyObject*>item)
    Py_DECREF(None)
    return 0


cdef inline object held_take(list held, Py_ssize_t index):
    """Take the object out and leave None."""
    assert 0 <= index < PyList_GET_SIZE(<PyObject*>held), "a place outside the list"
    cdef object item = <object>PyList_GET_ITEM(<PyObject*>held, index)
    assert item is not None, "the place is empty"
    Py_INCREF(None)
    PyList_SET_ITEM(<PyObject*>held, index, <PyObject*>None)
    Py_DECREF(item)
    return item


cdef inline int held_move(list held, Py_ssize_t index, list other, Py_ssize_t place) except -1:
    """Take the object out of one list and put it into another, where None is: the two change places."""
    assert 0 <= index < PyList_GET_SIZE(<PyObject*>held), "a place outside the list"
    assert 0 <= place < PyList_GET_SIZE(<PyObject*>other), "a place outside the other list"
    cdef PyObject* item = PyList_GET_ITEM(<PyObject*>held, index)
    assert item is not <PyObject*>None, "the place is empty"
    assert PyList_GET_ITEM(<PyObject*>other, place) is <PyObject*>None, "the other place is taken"
    PyList_SET_ITEM(<PyObject*>held, index, <PyObject*>None)
    PyList_SET_ITEM(<PyObject*>other, place, item)
    return 0

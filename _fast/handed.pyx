"""What a reader in this process was handed: an object for each delivery, and what is done with many of them at once.

An object of Python for each delivery, a pair for each that waited to be read, and a call for each acknowledgement were a third of
what an event in memory cost. The methods that wait are in Python, in a subclass: nothing here awaits.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from types import GenericAlias

from _fast.entries cimport Entry
from _fast.held cimport held_take
from _fast.leases cimport Leases

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* (*tp_new)(PyTypeObject*, PyObject*, PyObject*) except NULL
    void Py_DECREF(object value) noexcept

cdef int32_t NONE = -1


cdef class Handed:
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, tap, place not None, Entry entry not None):
        self._tap = tap
        self._place = place
        self._entry = entry
        self.attempt = entry.attempt

    cdef inline bint _is_held(self) noexcept:
        return self._entry is not None and self._entry.holder is self._place and self._entry.attempt == self.attempt

    @property
    def held(self):
        return not self.settled and self._is_held()


cdef inline Handed handed_in(object item):
    return <Handed?>item


def hand_out(type kind not None, tap, place not None, list entries not None):
    cdef list made = []
    cdef Handed delivery
    cdef Entry entry
    if not issubclass(kind, Handed):
        raise TypeError("a delivery is made of Handed")
    empty = ()
    for item in entries:
        entry = <Entry?>item
        made_one = <object>(<PyTypeObject*>kind).tp_new(<PyTypeObject*>kind, <PyObject*>empty, NULL)
        Py_DECREF(made_one)  # it came as a new reference, and the cast made one more
        delivery = <Handed>made_one
        delivery._tap = tap
        delivery._place = place
        delivery._entry = entry
        delivery.attempt = entry.attempt
        made.append(delivery)
    return made


def still_held(list deliveries not None):
    cdef list kept
    cdef bint all_held = True
    for item in deliveries:
        if not handed_in(item)._is_held():
            all_held = False
            break
    if all_held:
        return deliveries
    kept = []
    for item in deliveries:
        if handed_in(item)._is_held():
            kept.append(item)
    return kept


def entries_handed(list deliveries not None):
    cdef list entries = []
    for item in deliveries:
        entries.append(handed_in(item)._entry)
    return entries


def let_go_handed(dict held not None, list deliveries not None, place not None, Leases leases not None):
    cdef dict by_stream = {}
    cdef list lost = []
    cdef list ended = None
    cdef object last = None
    cdef Handed delivery
    cdef Entry entry
    cdef int32_t node
    for item in deliveries:
        if not isinstance(item, Handed) or (<Handed>item)._place is not place:
            return None
    for item in deliveries:
        delivery = <Handed?>item
        entry = delivery._entry
        if delivery._place is not place or not delivery._is_held() or held.get(entry.seq) is not entry:
            lost.append(delivery)
            continue
        del held[entry.seq]
        entry.holder = None
        node = leases._held_by(entry.lease, entry.attempt)
        if node != NONE:
            leases._end(node)
            held_take(leases._items, node)
        delivery.settled = True
        if entry.stream is not last or ended is None:
            last = entry.stream
            ended = by_stream.get(last)
            if ended is None:
                ended = by_stream[last] = []
        ended.append(entry)
    return by_stream, lost

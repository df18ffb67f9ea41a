"""Says which of the two flavours of `_fast` this is (see the directive table in setup.py)."""

cdef extern from *:
    """
    #ifdef COURIER_DEBUG_BUILD
    #define COURIER_IS_DEBUG_BUILD 1
    #else
    #define COURIER_IS_DEBUG_BUILD 0
    #endif
    """
    const bint COURIER_IS_DEBUG_BUILD

DEBUG_BUILD = COURIER_IS_DEBUG_BUILD

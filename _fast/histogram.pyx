"""How long something took, as counts in buckets that are as wide as their values are large.

Each power of two is cut into 32 buckets of equal width, so a value is known to 1 part in 32, and the middle of
its bucket to half of that; below 64 a bucket is one value. Why not a list of the last values: it costs as much as there are
values and must be sorted to be asked, and a burst pushes out the very values that a 99th percentile is about.
Why not 16 buckets to a power of two, for half of the memory: the middle of one is wrong by up to 3.1 percent,
and 3 is the bound. Why the buckets are allocated late: most streams are idle, and 886 counters are 7 KB.
"""

cimport cython
from libc.math cimport ceil
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef extern from *:
    """
    static inline int courier_highest_bit(unsigned long long word) { return 63 - __builtin_clzll(word); }
    """
    int courier_highest_bit(unsigned long long word) noexcept nogil

cdef int64_t TOP_US = 3_600_000_000
cdef enum:
    WIDTH_BITS = 5
    WIDTH = 32
    BUCKETS = 886  # the bucket of TOP_US is the last


cdef inline int bucket_of(int64_t value_us) noexcept nogil:
    """Where a value from 0 to TOP_US is counted."""
    cdef int shift
    if value_us < 2 * WIDTH:
        return <int>value_us
    shift = courier_highest_bit(<unsigned long long>value_us) - WIDTH_BITS
    return shift * WIDTH + <int>(value_us >> shift)


cdef inline int64_t lowest_of(int bucket) noexcept nogil:
    """The least value that is counted in a bucket."""
    cdef int shift = 0 if bucket < 2 * WIDTH else bucket // WIDTH - 1
    return <int64_t>(bucket - shift * WIDTH) << shift


cdef inline int64_t highest_of(int bucket) noexcept nogil:
    return TOP_US if bucket == BUCKETS - 1 else lowest_of(bucket + 1) - 1


@cython.final
cdef class Histogram:
    def __dealloc__(self):
        free(self._counts)

    @property
    def count(self):
        return self._count

    @property
    def total(self):
        return self._total

    cdef int _allocate(self) except -1:
        if self._counts == NULL:
            self._counts = <int64_t*>calloc(BUCKETS, sizeof(int64_t))
            if self._counts == NULL:
                raise MemoryError(f"no memory for a histogram of {BUCKETS} buckets")
        return 0

    cpdef record(self, int64_t value_us):
        if self._counts == NULL:
            self._allocate()
        value_us = max(0, min(value_us, TOP_US))
        self._counts[bucket_of(value_us)] += 1
        self._count += 1
        self._total += value_us

    def percentile(self, double p):
        cdef int64_t left
        cdef int bucket = 0
        if not 0 <= p <= 100:
            raise ValueError(f"a percentile is from 0 to 100, not {p}")
        if self._count == 0:
            return 0
        left = max(1, min(<int64_t>ceil(p * self._count / 100), self._count))
        while left > self._counts[bucket]:
            left -= self._counts[bucket]
            bucket += 1
        return (lowest_of(bucket) + highest_of(bucket)) // 2

    def merge(self, Histogram other not None):
        cdef int bucket
        if other._counts == NULL:
            return
        self._allocate()
        for bucket in range(BUCKETS):
            self._counts[bucket] += other._counts[bucket]
        self._count += other._count
        self._total += other._total

    def clear(self):
        free(self._counts)
        self._counts = NULL
        self._count = self._total = 0

    def buckets(self):
        cdef list filled = []
        cdef int64_t[BUCKETS] counts
        cdef int bucket
        if self._counts == NULL:
            return filled
        # A copy, because making tuples may run the collector, and that may call back and clear this histogram.
        memcpy(counts, self._counts, sizeof(counts))
        for bucket in range(BUCKETS):
            if counts[bucket]:
                filled.append((highest_of(bucket), counts[bucket]))
        return filled

    def __sizeof__(self):
        return type(self).__basicsize__ + (0 if self._counts == NULL else BUCKETS * sizeof(int64_t))

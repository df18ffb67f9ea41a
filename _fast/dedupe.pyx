"""The memory of identities: new, in flight with a batch, or committed at a sequence.

It saves the ledger a look-up for the duplicates that arrive soon after their original, which is
when nearly all of them arrive, and it answers the question that the ledger cannot: is the original
still on its way to the disk? The ledger's unique index stays the authority on everything older.

Why digests and not the identities themselves: 16 bytes instead of up to 767, and no object to hold.
Why a keyed hash: with a known one, a hostile producer could prepare two ids with one digest, and
have somebody else's event swallowed as a duplicate. Why entries in flight are outside the order of
use: then every entry in that order can be evicted, and eviction never has to search. They are in an
order of their own, that of the claims, so that a whole batch is committed without its identities, and
without hashing them a second time.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, INT64_MIN
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import os

from _fast.dedupe cimport Digest, Entry, Order

cdef extern from *:
    """
    static inline void courier_prefetch(const void *place) { __builtin_prefetch(place, 1); }
    """
    void courier_prefetch(const void* place) noexcept nogil

cdef int32_t CAPACITY_MAX = 1 << 30
cdef int32_t NONE = -1
cdef int64_t NO_ROOM = INT64_MIN
cdef int64_t SEQ_MAX = INT64_MAX


cdef inline uint64_t rotate(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline void sip_round(uint64_t* v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = rotate(v[1], 13) ^ v[0]
    v[3] = rotate(v[3], 16) ^ v[2]
    v[0] = rotate(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = rotate(v[1], 17) ^ v[2]
    v[3] = rotate(v[3], 21) ^ v[0]
    v[2] = rotate(v[2], 32)


cdef Digest siphash_2_4_128(Digest key, const char* data, Py_ssize_t size) noexcept nogil:
    """SipHash-2-4 (Aumasson and Bernstein) with the 128-bit output."""
    cdef uint64_t[4] v
    cdef uint64_t word
    cdef Py_ssize_t offset
    cdef Digest digest
    v[0] = key.low ^ <uint64_t>0x736F6D6570736575
    v[1] = key.high ^ <uint64_t>0x646F72616E646F6D ^ <uint64_t>0xEE
    v[2] = key.low ^ <uint64_t>0x6C7967656E657261
    v[3] = key.high ^ <uint64_t>0x7465646279746573
    for offset in range(0, size - 7, 8):
        memcpy(&word, data + offset, 8)
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
    word = 0
    offset = size & ~<Py_ssize_t>7
    memcpy(&word, data + offset, <size_t>(size - offset))
    word |= <uint64_t>size << 56
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    sip_round(v)
    sip_round(v)
    sip_round(v)
    sip_round(v)
    digest.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    sip_round(v)
    sip_round(v)
    sip_round(v)
    sip_round(v)
    digest.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return digest


cdef Digest key_from(bytes key) except *:
    cdef Digest words
    if len(key) != 16:
        raise ValueError(f"the key must have 16 bytes, not {len(key)}")
    memcpy(&words, PyBytes_AS_STRING(key), 16)
    return words


def siphash128(bytes key not None, bytes data not None):
    cdef Digest digest = siphash_2_4_128(key_from(key), PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return (<const char*>&digest)[:16]


@cython.final
cdef class Dedupe:
    def __cinit__(self, int64_t capacity, bytes key=None):
        cdef uint64_t buckets = 1
        if not 1 <= capacity <= CAPACITY_MAX:
            raise ValueError(f"capacity must be from 1 to {CAPACITY_MAX}, not {capacity}")
        self._key = key_from(os.urandom(16) if key is None else key)
        while buckets < <uint64_t>capacity:
            buckets *= 2
        self._entries = <Entry*>calloc(<size_t>capacity, sizeof(Entry))
        self._buckets = <int32_t*>calloc(<size_t>buckets, sizeof(int32_t))
        if self._entries == NULL or self._buckets == NULL:
            raise MemoryError(f"no memory for {capacity} identities")
        self._bucket_mask = buckets - 1
        self._capacity = <int32_t>capacity
        self._free = NONE
        self._flying.oldest = self._flying.newest = NONE
        self._committed.oldest = self._committed.newest = NONE

    def __dealloc__(self):
        free(self._entries)
        free(self._buckets)

    @property
    def capacity(self):
        return self._capacity

    @property
    def in_flight(self):
        return self._in_flight

    @property
    def evictions(self):
        return self._evictions

    cdef Digest _digest(self, bytes identity) noexcept:
        return siphash_2_4_128(self._key, PyBytes_AS_STRING(identity), PyBytes_GET_SIZE(identity))

    cdef Digest _digest_of(self, const char* data, Py_ssize_t size) noexcept nogil:
        return siphash_2_4_128(self._key, data, size)

    # A bucket holds the number of its first entry plus one, so that fresh (zeroed) memory means
    # "empty": the pages of a large table are not touched before they are used.

    cdef int32_t _find(self, Digest digest) noexcept nogil:
        cdef int32_t index = self._buckets[digest.low & self._bucket_mask] - 1
        while index != NONE:
            if self._entries[index].digest.low == digest.low and self._entries[index].digest.high == digest.high:
                return index
            index = self._entries[index].chain
        return NONE

    cdef int32_t _add(self, Digest digest, int64_t state) noexcept nogil:
        """A new entry, from a free one, a fresh one or the oldest committed one; NONE when all are in flight."""
        cdef uint64_t bucket = digest.low & self._bucket_mask
        cdef int32_t index
        if self._free == NONE and self._used == self._capacity:
            if self._committed.oldest == NONE:
                return NONE
            self._remove(self._committed.oldest)
            self._evictions += 1
        if self._free != NONE:
            index = self._free
            self._free = self._entries[index].chain
        else:
            index = self._used
            self._used += 1
        self._entries[index].digest = digest
        self._entries[index].state = state
        self._entries[index].chain = self._buckets[bucket] - 1
        self._buckets[bucket] = index + 1
        self._count += 1
        if state < 0:
            self._in_flight += 1
            self._link(&self._flying, index)
        else:
            self._link(&self._committed, index)
        return index

    cdef void _remove(self, int32_t index) noexcept nogil:
        cdef uint64_t bucket = self._entries[index].digest.low & self._bucket_mask
        cdef int32_t before = self._buckets[bucket] - 1
        if before == index:
            self._buckets[bucket] = self._entries[index].chain + 1
        else:
            while self._entries[before].chain != index:
                before = self._entries[before].chain
            self._entries[before].chain = self._entries[index].chain
        if self._entries[index].state < 0:
            self._in_flight -= 1
            self._unlink(&self._flying, index)
        else:
            self._unlink(&self._committed, index)
        self._entries[index].state = 0
        self._entries[index].chain = self._free
        self._free = index
        self._count -= 1

    cdef void _link(self, Order* order, int32_t index) noexcept nogil:
        """Append an entry at the new end of an order."""
        self._entries[index].older = order.newest
        self._entries[index].newer = NONE
        if order.newest != NONE:
            self._entries[order.newest].newer = index
        else:
            order.oldest = index
        order.newest = index

    cdef void _unlink(self, Order* order, int32_t index) noexcept nogil:
        cdef int32_t older = self._entries[index].older
        cdef int32_t newer = self._entries[index].newer
        if older != NONE:
            self._entries[older].newer = newer
        else:
            order.oldest = newer
        if newer != NONE:
            self._entries[newer].older = older
        else:
            order.newest = older

    cdef void _use(self, int32_t index) noexcept nogil:
        """Mark a committed entry as just used."""
        if index != self._committed.newest:
            self._unlink(&self._committed, index)
            self._link(&self._committed, index)

    cdef void _land(self, int32_t index, int64_t seq) noexcept nogil:
        """Turn an entry in flight into a committed one, just used."""
        self._unlink(&self._flying, index)
        self._in_flight -= 1
        self._entries[index].state = seq
        self._link(&self._committed, index)

    cdef int32_t _find_in_flight(self, bytes identity) except -1:
        cdef int32_t index = self._find(self._digest(identity))
        if index == NONE or self._entries[index].state > 0:
            raise KeyError(f"not in flight: {identity!r}")
        return index

    cdef void _prefetch(self, const Digest* digests, Py_ssize_t count) noexcept nogil:
        """Have the memory fetched that claims of these will look at: it is anywhere in tables of megabytes.

        For claims that come one behind the other, the processor would wait each time, for longer than it works.
        """
        cdef Py_ssize_t place
        cdef int32_t index
        for place in range(count):
            courier_prefetch(&self._buckets[digests[place].low & self._bucket_mask])
        if self._free == NONE and self._capacity - self._used < count:  # each new one takes the place of the oldest
            index = self._committed.oldest
            for place in range(count):
                if index == NONE:
                    break
                courier_prefetch(&self._buckets[self._entries[index].digest.low & self._bucket_mask])
                index = self._entries[index].newer
        for place in range(count):
            index = self._buckets[digests[place].low & self._bucket_mask] - 1
            if index != NONE:
                courier_prefetch(&self._entries[index])

    cdef int64_t _claim(self, Digest digest, int64_t batch) noexcept nogil:
        """The answer to a claim; NO_ROOM when it is unknown and all are in flight."""
        cdef int32_t index = self._find(digest)
        if index == NONE:
            return NO_ROOM if self._add(digest, -batch) == NONE else 0
        if self._entries[index].state > 0:
            self._use(index)
        return self._entries[index].state

    def claim(self, bytes identity not None, int64_t batch):
        cdef int64_t answer
        if batch < 1:
            raise ValueError(f"a batch number is at least 1, not {batch}")
        answer = self._claim(self._digest(identity), batch)
        if answer == NO_ROOM:
            raise OverflowError(f"all {self._capacity} identities are in flight")
        return answer

    def claim_many(self, list identities not None, int64_t batch):
        cdef list answers = []
        cdef bytes identity
        cdef int64_t answer
        if batch < 1:
            raise ValueError(f"a batch number is at least 1, not {batch}")
        for identity in identities:  # this checks the type of each
            if identity is None:
                raise TypeError("an identity cannot be None")
        for identity in identities:
            answer = self._claim(self._digest(identity), batch)
            if answer == NO_ROOM:
                break
            answers.append(answer)
        return answers

    def find(self, bytes identity not None):
        cdef int32_t index = self._find(self._digest(identity))
        return 0 if index == NONE else self._entries[index].state

    def commit(self, bytes identity not None, int64_t seq):
        cdef int32_t index = self._find_in_flight(identity)
        if seq < 1:
            raise ValueError(f"a sequence is at least 1, not {seq}")
        self._land(index, seq)

    cdef int32_t _count_of(self, int64_t batch) noexcept nogil:
        """How many identities are in flight with this batch."""
        cdef int32_t count = 0
        cdef int32_t index = self._flying.oldest
        while index != NONE:
            count += self._entries[index].state == -batch
            index = self._entries[index].newer
        return count

    def commit_batch(self, int64_t batch, int64_t first_seq):
        cdef int32_t index = self._flying.oldest
        cdef int32_t newer
        cdef int32_t count
        cdef int32_t landed = 0
        if batch < 1 or first_seq < 1:
            raise ValueError(f"a batch number and a sequence are at least 1, not {batch} and {first_seq}")
        count = self._count_of(batch)
        if first_seq - 1 > SEQ_MAX - count:
            raise OverflowError(f"the last of {count} sequences from {first_seq} would be past 2**63 - 1")
        while landed < count:
            newer = self._entries[index].newer
            if self._entries[index].state == -batch:
                self._land(index, first_seq + landed)
                landed += 1
            index = newer
        return count

    def abort(self, bytes identity not None):
        self._remove(self._find_in_flight(identity))

    def abort_batch(self, int64_t batch):
        cdef int32_t index = self._flying.oldest
        cdef int32_t newer
        cdef int32_t count = 0
        if batch < 1:
            raise ValueError(f"a batch number is at least 1, not {batch}")
        while index != NONE:
            newer = self._entries[index].newer
            if self._entries[index].state == -batch:
                self._remove(index)
                count += 1
            index = newer
        return count

    def remember(self, bytes identity not None, int64_t seq):
        cdef Digest digest = self._digest(identity)
        cdef int32_t index = self._find(digest)
        if seq < 1:
            raise ValueError(f"a sequence is at least 1, not {seq}")
        if index == NONE:
            self._add(digest, seq)
        elif self._entries[index].state > 0:
            self._use(index)

    def __len__(self):
        return self._count

    def __sizeof__(self):
        return (type(self).__basicsize__ + <size_t>self._capacity * sizeof(Entry)
                + (self._bucket_mask + 1) * sizeof(int32_t))

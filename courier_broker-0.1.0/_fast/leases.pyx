"""Which deliveries are out, and which of them have run out of time.

A hierarchical timing wheel: 8 levels of 64 slots, a millisecond a slot on the lowest level, 64 of
them a slot on the next, and so on to 2**48 ms. A lease sits at the level of the highest 6-bit digit
in which its deadline differs from the present; when the present reaches its slot it moves down.
Insert, cancel and extend are O(1), and a lease moves at most seven times in its life.

Why not a heap: an ack comes long before the deadline in the normal case, so leases are cancelled,
not popped. A heap pays O(log n) and a walk through memory for that, or keeps the dead entries of
thirty seconds around. Why one wheel for the whole broker and not one for each stream: its slots
cost 4 KB, and one timer serves all. Why the level comes from the exclusive-or of deadline and
present, and not from their distance: then two leases with one deadline are always in the same slot
in the order in which they were set, and expiry has an order that a test can state.
"""

cimport cython
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from types import GenericAlias

from _fast.held cimport held_move, held_put, held_take
from _fast.leases cimport Node, Slot
from _fast.numbers cimport numbers_in

cdef extern from *:
    """
    static inline int courier_lowest_bit(unsigned long long word) { return __builtin_ctzll(word); }
    static inline int courier_highest_bit(unsigned long long word) { return 63 - __builtin_clzll(word); }
    """
    int courier_lowest_bit(uint64_t word) noexcept nogil
    int courier_highest_bit(uint64_t word) noexcept nogil

cdef int32_t NONE = -1
cdef int32_t NODES_FIRST = 64
cdef int32_t CAPACITY_MAX = 1 << 30
cdef int64_t HORIZON_MS = <int64_t>1 << 48
cdef int64_t ATTEMPT_MAX = 2**31 - 1
cdef int64_t KEY_MAX = 2**63 - 1
cdef enum:
    LEVELS = 8
    DIGIT_BITS = 6
    DIGITS = 64


@cython.final
cdef class Leases:
    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self, int64_t capacity, int64_t now_ms=0):
        cdef int slot
        if not 1 <= capacity <= CAPACITY_MAX:
            raise ValueError(f"capacity must be from 1 to {CAPACITY_MAX}, not {capacity}")
        if not 0 <= now_ms < HORIZON_MS:
            raise ValueError(f"now_ms must be from 0 to 2**48 - 1, not {now_ms}")
        self._capacity = <int32_t>capacity
        self._now_ms = now_ms
        self._items = []
        self._free = NONE
        for slot in range(LEVELS * DIGITS):
            self._slots[slot].first = self._slots[slot].last = NONE

    def __dealloc__(self):
        free(self._nodes)
        free(self._buckets)

    @property
    def capacity(self):
        return self._capacity

    @property
    def now_ms(self):
        return self._now_ms

    cdef uint64_t _bucket(self, int64_t key) noexcept nogil:
        cdef uint64_t mixed = <uint64_t>key * <uint64_t>0x9E3779B97F4A7C15
        return (mixed >> 32) & self._bucket_mask

    cdef int32_t _find(self, int64_t key) noexcept nogil:
        cdef int32_t node
        if self._buckets == NULL:
            return NONE
        node = self._buckets[self._bucket(key)] - 1
        while node != NONE and self._nodes[node].key != key:
            node = self._nodes[node].chain
        return node

    cdef int32_t _held_by(self, int64_t key, int64_t attempt) noexcept nogil:
        """The node of `key` if it is leased under this very attempt."""
        cdef int32_t node = self._find(key)
        if node != NONE and self._nodes[node].attempt == attempt:
            return node
        return NONE

    cdef int _check_deadline(self, int64_t deadline_ms) except -1:
        if not 0 <= deadline_ms < HORIZON_MS:
            raise ValueError(f"deadline_ms must be from 0 to 2**48 - 1, not {deadline_ms}")
        return 0

    cdef int _check_attempt(self, int64_t attempt) except -1:
        if not 1 <= attempt <= ATTEMPT_MAX:
            raise ValueError(f"attempt must be from 1 to {ATTEMPT_MAX}, not {attempt}")
        return 0

    cdef int _grow(self) except -1:
        """Double the nodes and the buckets; the chains are laid anew."""
        cdef int32_t wanted = min(max(NODES_FIRST, self._allocated * 2), self._capacity)
        cdef uint64_t buckets = NODES_FIRST
        cdef int32_t node
        cdef Node* nodes
        cdef int32_t* table
        self._items.extend([None] * (wanted - len(self._items)))
        if wanted <= self._allocated:
            return 0  # making that list ran the collector, and that grew us
        while buckets < <uint64_t>wanted:
            buckets *= 2
        nodes = <Node*>realloc(self._nodes, <size_t>wanted * sizeof(Node))
        if nodes == NULL:
            raise MemoryError(f"no memory for {wanted} leases")
        self._nodes = nodes
        table = <int32_t*>realloc(self._buckets, buckets * sizeof(int32_t))
        if table == NULL:
            raise MemoryError(f"no memory for {wanted} leases")
        self._buckets = table
        self._bucket_mask = buckets - 1
        self._allocated = wanted
        memset(table, 0, buckets * sizeof(int32_t))
        for node in range(self._used):
            if self._nodes[node].slot == NONE:
                continue  # free, or ended and on its way to whoever called `expire`
            self._nodes[node].chain = table[self._bucket(self._nodes[node].key)] - 1
            table[self._bucket(self._nodes[node].key)] = node + 1
        return 0

    cdef int64_t _spare(self) noexcept nogil:
        """How many leases can be granted without growth."""
        return <int64_t>self._allocated - self._used + self._free_count

    cdef int _reserve(self, int64_t count) except -1:
        """Make sure that `count` more leases have a node, as far as the bound allows."""
        while self._spare() < count and self._allocated < self._capacity:
            self._grow()
        return 0

    cdef void _schedule(self, int32_t node, int64_t deadline_ms) noexcept nogil:
        """Append a node to the slot of its deadline; one in the past counts as the present."""
        cdef int level
        cdef int32_t slot
        cdef int32_t last
        if deadline_ms < self._now_ms:
            deadline_ms = self._now_ms
        level = 0
        if deadline_ms != self._now_ms:
            level = courier_highest_bit(<uint64_t>(deadline_ms ^ self._now_ms)) // DIGIT_BITS
        slot = <int32_t>((deadline_ms >> (level * DIGIT_BITS)) & (DIGITS - 1))
        self._occupied[level] |= <uint64_t>1 << slot
        slot += level * DIGITS
        last = self._slots[slot].last
        self._nodes[node].deadline_ms = deadline_ms
        self._nodes[node].slot = slot
        self._nodes[node].before = last
        self._nodes[node].after = NONE
        if last != NONE:
            self._nodes[last].after = node
        else:
            self._slots[slot].first = node
        self._slots[slot].last = node

    cdef void _unschedule(self, int32_t node) noexcept nogil:
        cdef int32_t before = self._nodes[node].before
        cdef int32_t after = self._nodes[node].after
        cdef int32_t slot = self._nodes[node].slot
        if before != NONE:
            self._nodes[before].after = after
        else:
            self._slots[slot].first = after
        if after != NONE:
            self._nodes[after].before = before
        else:
            self._slots[slot].last = before
        if self._slots[slot].first == NONE:
            self._occupied[slot // DIGITS] &= ~(<uint64_t>1 << (slot % DIGITS))

    cdef void _unchain(self, int32_t node) noexcept nogil:
        cdef uint64_t bucket = self._bucket(self._nodes[node].key)
        cdef int32_t before = self._buckets[bucket] - 1
        if before == node:
            self._buckets[bucket] = self._nodes[node].chain + 1
            return
        while self._nodes[before].chain != node:
            before = self._nodes[before].chain
        self._nodes[before].chain = self._nodes[node].chain

    cdef void _give_back(self, int32_t node) noexcept nogil:
        self._nodes[node].slot = NONE
        self._nodes[node].chain = self._free
        self._free = node
        self._free_count += 1

    cdef void _end(self, int32_t node) noexcept nogil:
        self._unschedule(node)
        self._unchain(node)
        self._give_back(node)
        self._count -= 1

    cdef int32_t _take_node(self, int64_t key, int64_t attempt, int64_t deadline_ms) noexcept nogil:
        """A node in its bucket and in its slot; there must be one to spare."""
        cdef int32_t node = self._free
        cdef uint64_t bucket = self._bucket(key)
        if node != NONE:
            self._free = self._nodes[node].chain
            self._free_count -= 1
        else:
            node = self._used
            self._used += 1
        self._nodes[node].key = key
        self._nodes[node].attempt = <int32_t>attempt
        self._nodes[node].chain = self._buckets[bucket] - 1
        self._buckets[bucket] = node + 1
        self._schedule(node, deadline_ms)
        self._count += 1
        return node

    def grant(self, int64_t key, int64_t attempt, int64_t deadline_ms, item):
        if item is None:
            raise TypeError("a lease cannot hold None")
        self._check_attempt(attempt)
        self._check_deadline(deadline_ms)
        self._reserve(1)
        if self._find(key) != NONE:
            raise ValueError(f"key {key} is leased already")
        if self._spare() == 0:
            return False
        held_put(self._items, self._take_node(key, attempt, deadline_ms), item)
        return True

    def grant_many(self, int64_t first_key, list attempts not None, int64_t deadline_ms, list items not None):
        cdef Py_ssize_t count = len(items)
        cdef Py_ssize_t index
        cdef int64_t* numbers
        self._check_deadline(deadline_ms)
        if count > 0 and first_key > KEY_MAX - (count - 1):
            raise OverflowError(f"the last of {count} keys from {first_key} would be past 2**63 - 1")
        self._reserve(count)
        # Growth may have run somebody else's code, so everything that can change is looked at after it.
        if len(items) != count or len(attempts) != count:
            raise ValueError(f"{count} items, but {len(attempts)} attempts")
        numbers = numbers_in(attempts)
        try:
            for index in range(count):
                if items[index] is None:
                    raise TypeError("a lease cannot hold None")
                self._check_attempt(numbers[index])
                if self._find(first_key + index) != NONE:
                    raise ValueError(f"key {first_key + index} is leased already")
            count = min(count, self._spare())
            for index in range(count):
                held_put(self._items, self._take_node(first_key + index, numbers[index], deadline_ms), items[index])
        finally:
            free(numbers)
        return count

    def release(self, int64_t key, int64_t attempt):
        cdef int32_t node = self._held_by(key, attempt)
        if node == NONE:
            return None
        self._end(node)
        return held_take(self._items, node)

    def release_many(self, list keys not None, list attempts not None):
        cdef list items = [None] * len(keys)
        cdef Py_ssize_t index
        cdef int32_t node
        cdef int64_t* numbers
        cdef int64_t* fences
        if len(keys) != len(items) or len(attempts) != len(items):
            raise ValueError(f"{len(keys)} keys, but {len(attempts)} attempts")
        numbers = numbers_in(keys)
        try:
            fences = numbers_in(attempts)
        except BaseException:
            free(numbers)
            raise
        for index in range(len(items)):
            node = self._held_by(numbers[index], fences[index])
            if node != NONE:
                self._end(node)
                held_move(self._items, node, items, index)
        free(numbers)
        free(fences)
        return items

    def extend(self, int64_t key, int64_t attempt, int64_t deadline_ms):
        cdef int32_t node = self._held_by(key, attempt)
        self._check_deadline(deadline_ms)
        if node == NONE:
            return False
        self._unschedule(node)
        self._schedule(node, deadline_ms)
        return True

    def attempt_of(self, int64_t key):
        cdef int32_t node = self._find(key)
        return 0 if node == NONE else self._nodes[node].attempt

    cdef int _earliest_level(self) noexcept nogil:
        """The lowest level that has a lease: everything on it is due before everything above it."""
        cdef int level
        for level in range(LEVELS):
            if self._occupied[level]:
                return level
        return NONE

    cdef int64_t _slot_time(self, int level, int position) noexcept nogil:
        """When the present reaches a slot: the start of the span that the slot covers."""
        cdef int shift = level * DIGIT_BITS
        cdef int64_t above = self._now_ms >> (shift + DIGIT_BITS)
        return ((above << DIGIT_BITS) | position) << shift

    cdef int32_t _detach_due(self, int64_t now_ms, int64_t limit) noexcept nogil:
        """Take up to `limit` due nodes out of wheel and buckets; the first of them, linked by `after`."""
        cdef int32_t first = NONE
        cdef int32_t last = NONE
        cdef int32_t node
        cdef int32_t following
        cdef int32_t slot
        cdef int level
        cdef int position
        cdef int64_t slot_time
        while limit > 0:
            level = self._earliest_level()
            if level == NONE:
                break
            position = courier_lowest_bit(self._occupied[level])
            slot_time = self._slot_time(level, position)
            if slot_time > now_ms:
                break
            self._now_ms = slot_time
            slot = level * DIGITS + position
            node = self._slots[slot].first
            if level > 0:
                self._slots[slot].first = self._slots[slot].last = NONE
                self._occupied[level] &= ~(<uint64_t>1 << position)
                while node != NONE:
                    following = self._nodes[node].after
                    self._schedule(node, self._nodes[node].deadline_ms)
                    node = following
                continue
            while node != NONE and limit > 0:
                following = self._nodes[node].after
                self._unschedule(node)
                self._unchain(node)
                self._count -= 1
                self._nodes[node].after = self._nodes[node].slot = NONE
                if last != NONE:
                    self._nodes[last].after = node
                else:
                    first = node
                last = node
                node = following
                limit -= 1
        if limit > 0 and now_ms > self._now_ms:
            self._now_ms = now_ms
        return first

    def expire(self, int64_t now_ms, int64_t limit=<int64_t>1 << 62):
        cdef list due = []
        cdef int32_t node
        cdef int32_t following
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        if now_ms >= HORIZON_MS:
            raise ValueError(f"now_ms must be below 2**48, not {now_ms}")
        # Two steps, because building the answer may run the garbage collector, and that may call back
        # into this object: by then the nodes are out of the wheel and belong to this call alone.
        node = self._detach_due(max(now_ms, self._now_ms), limit)
        while node != NONE:
            following = self._nodes[node].after
            due.append((self._nodes[node].key, self._nodes[node].attempt, held_take(self._items, node)))
            self._give_back(node)
            node = following
        return due

    def next_deadline_ms(self):
        cdef int level = self._earliest_level()
        if level == NONE:
            return -1
        return self._slot_time(level, courier_lowest_bit(self._occupied[level]))

    def __len__(self):
        return self._count

    def __sizeof__(self):
        cdef size_t buckets = 0 if self._buckets == NULL else self._bucket_mask + 1
        return (type(self).__basicsize__ + self._items.__sizeof__()
                + <size_t>self._allocated * sizeof(Node) + buckets * sizeof(int32_t))

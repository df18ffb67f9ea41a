"""What happened to the events of one stream, counted.

The counts are plain C integers, so that counting an event allocates nothing: `total += 1` on a Python attribute
makes a new integer for each event and throws the old one away. They are read as Python integers, when somebody
asks. Why not atomics: everything here runs on the loop.
"""

cimport cython


@cython.final
cdef class Counters:
    def count_came(self, int64_t count=1):
        if count < 0:
            raise ValueError(f"{count} events cannot have come")
        self.came += count

    def count_delivered(self, bint again):
        self.delivered += 1
        self.redelivered += again

    def count_acked(self, int64_t count=1):
        if count < 0:
            raise ValueError(f"{count} events cannot have been acknowledged")
        self.acked += count

    def count_nacked(self):
        self.nacked += 1

    def count_dead(self, int64_t count=1):
        if count < 0:
            raise ValueError(f"{count} events cannot have died")
        self.dead += count

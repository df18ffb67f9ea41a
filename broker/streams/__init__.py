"""Streams: events that wait, credits, leases, and whose turn it is.

memory         events that are only in memory, and those that go to the journal
rules          what holds for a stream, by its name
entry          one event on its way
partitions     the keys whose events go out one at a time
meter          how fast, and how long it takes
stream         the window of waiting events of one stream
subscription   a subscriber's place at a stream or a pattern
catch_up       behind the window: pages of the ledger
oldest         how old the head of a window is
registry       all streams and all leases
"""

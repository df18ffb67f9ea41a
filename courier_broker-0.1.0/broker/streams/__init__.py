"""Streams: events that wait, credits, leases, and whose turn it is.

memory         events that are only in memory, and those that go to the journal
rules          what holds for a stream, by its name
entry          one event on its way
partitions     the keys whose events go out one at a time
meter          how fast, and how long it takes
ledger         what all of this needs of the journal
stream         the window of waiting events of one stream
group          a consumer group's copy of a stream
groups_in_memory   the same without a journal
groups         which groups there are, and what they have copies of
subscription   a subscriber's place at a stream or a pattern
catch_up       behind the window: pages of the ledger
observer       who is told of each thing that happens to an event
oldest         how old the head of a window is
dispatch       deliveries and their leases
registry       all streams and all subscribers
"""

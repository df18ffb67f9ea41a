"""Streams: events that wait, credits, leases, and whose turn it is.

entry      one event on its way
stream     the window of waiting events of one stream, and its subscribers
registry   all streams, all leases, and the catch-up with the ledger
"""

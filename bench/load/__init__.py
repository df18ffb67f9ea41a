"""The load: bytes that are ready before the clock starts, and a loop that moves them.

events     envelopes of one size, with ids of one length
inbox      what one connection has received, kept as it came
lines      a connection that is driven: a producer with its cargo
consumer   a connection that takes events, and answers for them
drive      one loop over all connections, until everything is answered
paced      the same at a fixed rate, with the time at which each event was due
"""

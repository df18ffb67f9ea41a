"""Events on their way out to one reader.

outbox    what waits for a reader, taken in chunks of one write
tail      those who follow without consuming
framing   the frames of a chunk
"""

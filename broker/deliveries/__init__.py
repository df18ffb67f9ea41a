"""Events on their way out to one reader.

outbox    the deliveries that wait for a reader, taken all at once
"""

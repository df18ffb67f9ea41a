"""The pure wire shapes: what each contract accepts, how it becomes an event, and what it answers.

Nothing in this room opens a socket or a file, reads a clock or keeps state, so that the broker and a
device at the edge can share it. `names.py` holds the grammar of stream names and of the patterns that
select them.
"""

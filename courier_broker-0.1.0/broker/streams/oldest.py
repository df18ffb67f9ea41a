"""When the event at the head of a stream's window was received."""

from broker.streams.stream import Stream


def oldest_waiting(stream: Stream) -> int | None:
    """The time of what is delivered next, in microseconds since 1970; None when nothing waits.

    Of a stream in memory this is the oldest event that is known at once. What is in flight may be older.
    """
    entry = stream.ring.pop()
    if entry is None:
        return None
    stream.ring.restore(entry)
    return entry.received_at

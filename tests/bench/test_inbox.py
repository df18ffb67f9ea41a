"""What was received is kept whole, and counted once, through as many buffers as it fills."""

import socket

from bench.load.inbox import READ_BYTES, Inbox

MARKER = b'"ack":'
MESSAGE = b'{"ack":"%07d"}' + b"x" * 83
"""100 bytes: no divisor of a buffer, so that every end of one cuts a message."""


def test_a_message_that_the_end_of_a_buffer_cuts_is_counted_and_kept_whole() -> None:
    inbox = Inbox(segment_bytes=2 * READ_BYTES)
    sent = b"".join(MESSAGE % number for number in range(12_000))
    ours, theirs = socket.socketpair()
    counted = 0
    with ours, theirs:
        for at in range(0, len(sent), 50_001):
            piece = sent[at : at + 50_001]
            theirs.sendall(piece)
            left = len(piece)
            while left:
                left -= inbox.fill(ours)
                counted += inbox.count(MARKER)
    assert len(sent) > 4 * READ_BYTES
    assert counted == 12_000
    assert inbox.all() == sent


def test_what_was_not_looked_at_moves_on_however_much_it_is() -> None:
    """A message that is longer than a buffer, as an envelope of 1 MiB is."""
    inbox = Inbox(segment_bytes=2 * READ_BYTES)
    sent = b"x" * (6 * READ_BYTES) + MARKER
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for at in range(0, len(sent), 40_000):
            theirs.sendall(sent[at : at + 40_000])
            left = len(sent[at : at + 40_000])
            while left:
                left -= inbox.fill(ours)
                assert inbox.count(MARKER) == (inbox.end == len(sent))
    assert inbox.all() == sent

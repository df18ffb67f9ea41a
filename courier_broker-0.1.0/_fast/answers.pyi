from collections.abc import Mapping, Sequence

def ack_frames(
    events: Sequence[tuple[object, ...]], seqs: Sequence[int], duplicates: Mapping[int, tuple[int, bool]]
) -> bytes | None:
    """The acknowledgements of events (InboundEvents) as WebSocket text frames, one behind the other.

    `seqs` and `duplicates` are those of their receipts. None when one of them was refused, or has an id that is not
    plain ASCII: then each is to be answered by itself.
    """

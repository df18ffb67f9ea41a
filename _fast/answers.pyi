from collections.abc import Mapping, Sequence

def ack_frames(
    events: Sequence[tuple[object, ...]], seqs: Sequence[int], duplicates: Mapping[int, tuple[int, bool]]
) -> bytes | None:
    """The acknowledgements of events (InboundEvents) as WebSocket text frames, one behind the other.

    `seqs` and `duplicates` are those of their receipts. None when one of them was refused, or has an id that is not
    plain ASCII: then each is to be answered by itself.
    """

def http_answers(
    events: Sequence[tuple[object, ...]],
    seqs: Sequence[int],
    duplicates: Mapping[int, tuple[int, bool]],
    before: bytes,
    behind: bytes,
) -> list[bytes | None]:
    """The HTTP answer of each event: `before`, the length of its body, `behind`, and the body.

    None for one that was refused, or has an id that is not plain ASCII: it is to be answered by itself.
    """

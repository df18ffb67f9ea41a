class FrameReader:
    """Takes the texts out of what a WebSocket's client sends, a chunk at a time.

    A text that has more than `text_bytes_max` bytes is not plain.
    """

    is_plain: bool
    """Whether everything up to here was written plainly: whole texts, pings and pongs. Once it is not, it stays so,
    and `take` must not be called any more."""
    held_bytes: int
    """How much is kept of a frame that has not come in full."""

    def __init__(self, text_bytes_max: int) -> None: ...
    def take(self, chunk: bytes) -> tuple[list[bytes], bytes]:
        """The texts that are whole now, unmasked, in their order; and what is for another reader.

        That is whole pings and pongs, whose place among the texts does not matter, and, from the first frame on that is
        not plain, all that was not read. Whether a text is UTF-8 is not looked at.
        """

def ack_keys(texts: list[bytes], first: int, keys_max: int) -> tuple[list[str | int], int]:
    """The sequences that the texts from `first` on acknowledge, and where that ends: behind the texts that are plainly
    `{"ack": seq}` or `{"ack": [seq, …]}`, with up to `keys_max` sequences together."""

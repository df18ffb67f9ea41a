from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T", bound=tuple[object, ...])

class RequestReader(Generic[T]):
    """Reads requests of the Courier contract (003) that are written in the plainest form, in one walk over their bytes.

    It is a short cut and no judge: what it makes of a frame is what the contract's own parser would make of it, and
    None says nothing but that the frame must be given to that one. So it never has to tell what is wrong.
    """

    def __init__(
        self,
        template: T,
        source_of: Callable[[str], str | None],
        type_of: Callable[[str], str | None],
        envelope_bytes_max: int,
        requests_max: int,
        levels: int,
    ) -> None:
        """Events are copies of `template`, an InboundEvent, with the fields of the request in their places.

        `source_of` gives the source system of a stream, and `type_of` a type as it is; None for a name that may not
        be one. Both must be pure: what they gave for the last few hundred names is remembered.
        """

    def read(self, frame: bytes, received_at: int) -> list[T] | None:
        """The events of one request, or of an array of them, in order."""

    def read_one(self, body: bytes, received_at: int) -> T | None:
        """The event of one request. An array is none."""

    def read_frames(self, frames: list[bytes], received_at: int) -> tuple[list[T], int]:
        """The events of the frames before the first one that `read` gives None for; and how many frames that is."""

    def read_envelope(self, to: str, envelope: bytes, received_at: int) -> T | None:
        """The event of an envelope without a request around it. It keeps these very bytes, with the space around."""

    def read_pairs(self, pairs: list[object], received_at: int) -> tuple[list[T], list[str]] | None:
        """The events of pairs of a stream and an envelope, and the stream of each run of them.

        None when one of them is anything else, or is not plain.
        """

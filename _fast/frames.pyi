from typing import TypeVar

from _fast.entries import Entry

S = TypeVar("S")
H = TypeVar("H")

def delivery_frames(deliveries: list[tuple[Entry[S, H], int]], batch: int, bytes_max: int) -> tuple[bytes, list[int]]:
    """WebSocket frames with the first of these deliveries: all, or as many as it takes to reach `bytes_max`.

    With a `batch`, up to so many share a frame; with 0, each has one. Return the frames, and for each delivery in them
    where its frame ends. Those entries are marked as sent, but for one that has another attempt by now, which may not
    have left. Whatever is raised, none is.
    """
